import type { World } from './world.js';

/** A process with clocks of its own, which can stand still. */
export class Process {
  isCut = false;
  isPaused = false;
  wallOffsetMs = 0;
  private suspendedMs = 0;
  private suspendedAtMs: number | undefined;
  private inbox: (() => void)[] = [];

  constructor(
    readonly world: World,
    readonly rate: number,
  ) {}

  readonly clocks = {
    monotonic: () => (this.world.nowMs - this.suspendedMs) * this.rate,
    wall: () => this.world.nowMs * this.rate + this.wallOffsetMs,
  };

  do(work: () => void): void {
    if (this.isPaused) this.inbox.push(work);
    else work();
  }

  /** With its machine: the monotonic clock stands still. */
  toggleSuspend(): void {
    if (this.isPaused && this.suspendedAtMs === undefined) return;
    if (this.suspendedAtMs !== undefined) this.suspendedMs += this.world.nowMs - this.suspendedAtMs;
    this.suspendedAtMs = this.suspendedAtMs === undefined ? this.world.nowMs : undefined;
    this.togglePause();
  }

  togglePause(): void {
    if (this.suspendedAtMs !== undefined && this.isPaused) return;
    this.isPaused = !this.isPaused;
    if (!this.isPaused) for (const work of this.inbox.splice(0)) work();
  }

  /** A clock that is set back during a suspend is outside of what the argument assumes. */
  jump(ms: number): void {
    if (this.suspendedAtMs === undefined) this.wallOffsetMs += ms;
  }

  schedule(work: () => void, afterMs: number): () => void {
    let isCancelled = false;
    this.world.at(afterMs / this.rate, () =>
      this.do(() => {
        if (!isCancelled) work();
      }),
    );
    return () => void (isCancelled = true);
  }
}
