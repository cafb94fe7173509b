import { Injectable } from '@nestjs/common';
import { MAX_CHANGES, type Answer, type LoggedAnswer, type LoggedChange } from './change-feed.js';
import { isNotNewer, isPurged, isSince, parseCursor, type Cursor } from './cursor.js';

/** A few megabytes. */
const MAX_LOGGED = 10_000;

/** The changes between two polls of the feed that found some. */
interface Batch {
  readonly since: Cursor;
  readonly changes: readonly LoggedChange[];
}

/**
 * The latest answers of this replica's feed, from which it answers the polls of verifiers (docs/decisions/0044). It
 * answers only cursors that are not older than its start, so that it never misses a change.
 */
@Injectable()
export class ChangeLog {
  private batches: Batch[] = [];
  private size = 0;
  /** The log has every change since this snapshot. */
  private start: Cursor | undefined;
  private head: Cursor | undefined;
  private purged = 0n;

  /** To be called with each answer of this replica's own feed, in their order. */
  append({ cursor, reset, changes, purged }: LoggedAnswer): void {
    const previous = this.head;
    this.head = parseCursor(cursor);
    this.purged = purged;
    if (reset || !previous || !this.start) {
      this.batches = [];
      this.size = 0;
      this.start = this.head;
      return;
    }
    if (changes.length === 0) return;
    this.batches.push({ since: previous, changes });
    this.size += changes.length;
    while (this.size > MAX_LOGGED) {
      this.size -= this.batches.shift()?.changes.length ?? 0;
      this.start = this.batches[0]?.since ?? this.head;
    }
  }

  /**
   * @param given cursor of a verifier
   * @returns undefined when the log does not reach back to it: PostgreSQL has to be asked
   */
  answer(given: string | undefined): Answer | undefined {
    const { head, start, purged } = this;
    if (!head || !start) return undefined;
    const cursor = `${head.epoch}/${head.snapshot}`;
    // Most polls find nothing new. A cursor that is the newest need not be parsed.
    const since = given === cursor ? head : parseCursor(given);
    const reset: Answer = { cursor, reset: true, changes: [] };
    if (since?.epoch !== head.epoch || isPurged(since, purged)) return reset;
    if (!isNotNewer(start, since)) return undefined;
    const changes = this.collectSince(since);
    return changes.length > MAX_CHANGES ? reset : { cursor, reset: false, changes };
  }

  /** From the newest batch back, until the cursor shows everything before. */
  private collectSince(since: Cursor): LoggedChange[] {
    const found: LoggedChange[] = [];
    for (const { since: batchSince, changes } of this.batches.toReversed()) {
      found.push(...changes.filter(({ xid }) => isSince(since, xid)));
      if (found.length > MAX_CHANGES || isNotNewer(batchSince, since)) break;
    }
    return found;
  }
}
