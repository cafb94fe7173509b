import type { World } from './world.js';

/** A process with clocks of its own, which can stand still. */
export class Process {
  isCut = false;
  isPaused = false;
  wallOffsetMs = 0;
  private suspendedMs = 0;
  private suspendedAtMs: number | undefined;
  private wasSuspended = false;
  private wasSetBack = false;
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

  /** With its machine: the monotonic clock stands still. See {@link jump}. */
  toggleSuspend(): void {
    if (this.wasSetBack || (this.isPaused && this.suspendedAtMs === undefined)) return;
    this.wasSuspended = true;
    if (this.suspendedAtMs !== undefined) this.suspendedMs += this.world.nowMs - this.suspendedAtMs;
    this.suspendedAtMs = this.suspendedAtMs === undefined ? this.world.nowMs : undefined;
    this.switchPause();
  }

  togglePause(): void {
    if (this.suspendedAtMs === undefined) this.switchPause();
  }

  /**
   * A machine is either suspended, or its wall clock is set back. What is outside of the argument's assumptions is both
   * within one lease, or the life of one entry: each clock would then hide a part of the time from the rule that
   * compares them.
   */
  jump(ms: number): void {
    if (ms < 0 && this.wasSuspended) return;
    if (ms < 0) this.wasSetBack = true;
    this.wallOffsetMs += ms;
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

  private switchPause(): void {
    this.isPaused = !this.isPaused;
    if (!this.isPaused) for (const work of this.inbox.splice(0)) work();
  }
}
