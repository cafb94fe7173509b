import { SYSTEM_CLOCKS, type Clocks } from '../../../packages/lease/src/lease.js';
import { HttpTransport } from './http-transport.js';
import type { Transport } from './transport.js';

/** Everything that takes time or chance, so that the conformance suite can simulate it. */
export interface Runtime {
  readonly clocks: Clocks;
  readonly transport: Transport;
  /** Calls back after a time by the monotonic clock. @returns what cancels it */
  schedule(work: () => void, afterMs: number, isBackground: boolean): () => void;
  /** 0 ≤ random < 1, for jitter. */
  random(): number;
}

export function createSystemRuntime(): Runtime {
  return {
    clocks: SYSTEM_CLOCKS,
    transport: new HttpTransport(),
    schedule: (work, afterMs, isBackground) => {
      const timer = setTimeout(work, afterMs);
      if (isBackground) timer.unref();
      return () => clearTimeout(timer);
    },
    random: () => Math.random(),
  };
}

/** Waits without blocking. */
export function pause(runtime: Runtime, ms: number, isBackground = false): Promise<void> {
  return new Promise((resolve) => {
    runtime.schedule(resolve, ms, isBackground);
  });
}
