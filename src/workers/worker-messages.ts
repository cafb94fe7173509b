// What workers and their primary tell each other. Reports of metrics are in metrics/worker-report.ts.

/** The primary asks it again and again: a worker that does not answer for long hangs. */
export const PING = 'ping';
export const PONG = 'pong';

/** A worker could not start, and says why in words that are fit to print. */
export class WorkerStartFailed extends Error {}

export interface StartFailed {
  readonly startFailed: string;
}

export function isStartFailed(message: unknown): message is StartFailed {
  return typeof message === 'object' && message !== null && 'startFailed' in message;
}

/** In a worker. */
export function answerPings(): void {
  process.on('message', (message) => {
    if (message === PING) process.send?.(PONG);
  });
}

/** In a worker: the primary says it, once for all. */
export async function reportStartFailure(startFailed: string): Promise<void> {
  await new Promise<void>((resolve) => {
    process.send?.({ startFailed } satisfies StartFailed, undefined, undefined, () => resolve());
  });
}
