import { SYSTEM_CLOCKS, type Clocks } from '../../../packages/lease/src/lease.js';
import { HttpTransport } from './http-transport.js';
import type { Transport } from './transport.js';

/** Time and chance, which the conformance suite simulates. */
export interface Runtime {
  readonly clocks: Clocks;
  readonly transport: Transport;
  /**
   * Calls back after a time by the monotonic clock.
   * @returns a function that cancels the call
   */
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

export function pause(runtime: Runtime, ms: number, isBackground = false): Promise<void> {
  return new Promise((resolve) => {
    runtime.schedule(resolve, ms, isBackground);
  });
}
