import type { Clocks } from '../../../packages/lease/src/lease.js';
import type { Misconfigurations } from './events.js';

/** Equals the tolerance of token times, so that a smaller difference changes no verdict. */
export const CLOCK_TOLERANCE_SECONDS = 60;
/** The name of this cause in configuration errors. */
const CLOCK = 'clock';

/** Compares the wall clock of this machine with the `Date` of the service's answers. */
export class ClockCheck {
  private isOff = false;
  /** Wall clock minus monotonic clock when they were last compared; NaN before. */
  private offsetMs = NaN;

  constructor(
    private readonly clocks: Clocks,
    private readonly misconfigurations: Misconfigurations,
  ) {}

  /**
   * While this clock is wrong, what it says about the times of a token is not a verdict. After a jump it counts as wrong
   * until the next answer.
   */
  get isWrong(): boolean {
    return this.isOff || Math.abs(this.readOffsetMs() - this.offsetMs) > CLOCK_TOLERANCE_SECONDS * 1_000;
  }

  /** @param date header of an answer that has just arrived; an unreadable one changes nothing */
  compare(date: string | undefined): void {
    const offSeconds = Math.round((this.clocks.wall() - Date.parse(date ?? '')) / 1_000);
    if (Number.isNaN(offSeconds)) return;
    this.offsetMs = this.readOffsetMs();
    this.isOff = Math.abs(offSeconds) > CLOCK_TOLERANCE_SECONDS;
    if (this.isOff) this.misconfigurations.report(CLOCK, `differs from the service's by ${offSeconds} s`);
    else this.misconfigurations.clear(CLOCK);
  }

  private readOffsetMs(): number {
    return this.clocks.wall() - this.clocks.monotonic();
  }
}
