import type { Clocks } from '../../../packages/lease/src/lease.js';
import type { Runtime } from '../src/runtime.js';
import type { Transport } from '../src/transport.js';

/** 2026-01-01T00:00:00Z */
const START_WALL_MS = 1_767_225_600_000;

type Clock = 'true' | 'monotonic';

interface Event {
  readonly dueMs: number;
  readonly clock: Clock;
  /** Whether it happens outside of the process, so that a pause does not delay it. */
  readonly isOutside: boolean;
  readonly work: () => void;
}

/** True time, the clocks of one process, and everything that falls due. */
export class Simulation {
  nowMs = 0;
  private suspendedMs = 0;
  private jumpedMs = 0;
  private stoppedUntilMs = 0;
  private readonly events = new Set<Event>();

  readonly clocks: Clocks = {
    monotonic: () => this.nowMs - this.suspendedMs,
    wall: () => START_WALL_MS + this.nowMs + this.jumpedMs,
  };

  /** @returns a function that cancels it */
  at(
    dueMs: number,
    work: () => void,
    { clock = 'true', isOutside = false }: Partial<Pick<Event, 'clock' | 'isOutside'>> = {},
  ): () => void {
    const event = { dueMs, clock, isOutside, work };
    this.events.add(event);
    return () => this.events.delete(event);
  }

  jump(ms: number): void {
    this.jumpedMs += ms;
  }

  /** Pauses the process, while its clocks go on. */
  stop(ms: number): void {
    this.stoppedUntilMs = this.nowMs + ms;
  }

  /** Suspends the machine, and with it the monotonic clock. */
  suspend(ms: number): void {
    this.stop(ms);
    this.suspendedMs += ms;
  }

  async run(untilMs: number): Promise<void> {
    await settle();
    for (let event = this.next(untilMs); event; event = this.next(untilMs)) {
      this.events.delete(event);
      this.nowMs = Math.max(this.nowMs, this.toTrueMs(event));
      event.work();
      await settle();
    }
    this.nowMs = Math.max(this.nowMs, untilMs);
  }

  createRuntime(transport: Transport): Runtime {
    return {
      random: () => Math.random(),
      clocks: this.clocks,
      transport,
      schedule: (work, afterMs) => this.at(this.clocks.monotonic() + afterMs, work, { clock: 'monotonic' }),
    };
  }

  private next(untilMs: number): Event | undefined {
    const due = [...this.events].sort((a, b) => this.toTrueMs(a) - this.toTrueMs(b) || a.dueMs - b.dueMs)[0];
    return due && this.toTrueMs(due) <= untilMs ? due : undefined;
  }

  private toTrueMs({ dueMs, clock, isOutside }: Event): number {
    const trueMs = clock === 'monotonic' ? dueMs + this.suspendedMs : dueMs;
    return isOutside ? trueMs : Math.max(trueMs, this.stoppedUntilMs);
  }
}

/** WebCrypto works in other threads and takes real time, so the simulation waits for it. */
let pendingCryptography = 0;
for (const name of ['verify', 'importKey'] as const) {
  const original = crypto.subtle[name].bind(crypto.subtle) as (...parameters: unknown[]) => Promise<never>;
  crypto.subtle[name] = (...parameters: unknown[]) => {
    pendingCryptography += 1;
    return original(...parameters).finally(() => (pendingCryptography -= 1));
  };
}

/** Lets all promises settle. */
async function settle(): Promise<void> {
  do await new Promise((resolve) => setImmediate(resolve));
  while (pendingCryptography > 0);
  await new Promise((resolve) => setImmediate(resolve));
}
