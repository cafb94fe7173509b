import { Clock } from '../../src/common/clock.js';

/** A clock that a test moves by hand. */
export class TestClock extends Clock {
  private offsetMs = 0;

  override now(): Date {
    return new Date(Date.now() + this.offsetMs);
  }

  advance({ seconds = 0, minutes = 0, days = 0 }: { seconds?: number; minutes?: number; days?: number }): void {
    this.offsetMs += (seconds + minutes * 60 + days * 86_400) * 1_000;
  }
}
