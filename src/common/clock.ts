import { Injectable } from '@nestjs/common';

const MS_PER_SECOND = 1_000;
const MS_PER_DAY = 86_400_000;

/** Wall-clock time, injected so that a test can move it instead of sleeping. */
@Injectable()
export class Clock {
  now(): Date {
    return new Date();
  }
}

export function addSeconds(date: Date, seconds: number): Date {
  return new Date(date.getTime() + seconds * MS_PER_SECOND);
}

export function addDays(date: Date, days: number): Date {
  return new Date(date.getTime() + days * MS_PER_DAY);
}
