import { Injectable } from '@nestjs/common';

const MS_PER_SECOND = 1_000;
const MS_PER_DAY = 86_400_000;

/** The clocks of this machine, injected so that a test can move them instead of sleeping. */
@Injectable()
export class Clock {
  now(): Date {
    return new Date();
  }

  /** Milliseconds since an unspecified moment. Unlike `now()`, it never jumps. */
  readMonotonicMs(): number {
    return performance.now();
  }
}

export function addSeconds(date: Date, seconds: number): Date {
  return new Date(date.getTime() + seconds * MS_PER_SECOND);
}

export function addDays(date: Date, days: number): Date {
  return new Date(date.getTime() + days * MS_PER_DAY);
}
