import type { Budget } from './budgets.js';
import type { OpenWindow } from './throttle-windows.js';

/** A limit that refuses now, for operators. */
export interface ExhaustedLimit {
  readonly name: Budget['name'];
  readonly until: Date;
}

/** @returns the limit when its window is open and has no point left; else nothing */
export function toExhausted({ name, limit }: Budget, window: OpenWindow | undefined): ExhaustedLimit[] {
  return window && window.lost >= limit.points ? [{ name, until: window.window_end }] : [];
}
