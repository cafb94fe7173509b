import type { DataSource, EntityManager } from 'typeorm';
import { Clock } from '../../src/foundation/common/clock.js';
import { DatabaseClock } from '../../src/foundation/database/database.js';

interface Duration {
  readonly seconds?: number;
  readonly minutes?: number;
  readonly days?: number;
}

const WINDOW_SECONDS = 900;

/** A clock that a test moves by hand. */
export class TestClock extends Clock {
  private passedMs = 0;
  private errorMs = 0;
  private stoppedAt: { readonly nowMs: number; readonly readMonotonicMs: number } | undefined;

  override now(): Date {
    return new Date((this.stoppedAt?.nowMs ?? Date.now()) + this.passedMs + this.errorMs);
  }

  override readMonotonicMs(): number {
    return (this.stoppedAt?.readMonotonicMs ?? super.readMonotonicMs()) + this.passedMs;
  }

  /**
   * From now on only {@link advance} moves it, and PostgreSQL's clock with it: for bounds of seconds, which a machine
   * that stalls would cross by itself.
   */
  stop(): void {
    this.stoppedAt ??= { nowMs: Date.now(), readMonotonicMs: super.readMonotonicMs() };
  }

  /** Moves this replica's clock, and PostgreSQL's clock as the replica reads it. */
  advance(duration: Duration): void {
    this.passedMs += millisecondsOf(duration);
  }

  /**
   * Advances to the next quarter of an hour, so that later refusals are counted in one row of the audit log instead of
   * two.
   */
  enterNextWindow(): void {
    this.advance({ seconds: WINDOW_SECONDS - ((this.now().getTime() / 1_000) % WINDOW_SECONDS) + 1 });
  }

  /** Makes the clock of this replica wrong. */
  drift(duration: Duration): void {
    this.errorMs += millisecondsOf(duration);
  }

  /** @returns what PostgreSQL's clock says after the time that the test let pass */
  ofDatabase(now: Date): Date {
    return new Date((this.stoppedAt?.nowMs ?? now.getTime()) + this.passedMs);
  }
}

function millisecondsOf({ seconds = 0, minutes = 0, days = 0 }: Duration): number {
  return (seconds + minutes * 60 + days * 86_400) * 1_000;
}

/** PostgreSQL's clock, moved by the time that a test lets pass. */
export class MovedDatabaseClock extends DatabaseClock {
  constructor(
    dataSource: DataSource,
    private readonly clock: TestClock,
  ) {
    super(dataSource);
  }

  override async now(transaction?: EntityManager): Promise<Date> {
    return this.clock.ofDatabase(await super.now(transaction));
  }
}
