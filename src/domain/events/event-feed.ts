/**
 * What a service reads: the events of its types after its position, at least once and in the order of the seals. Terms:
 * position (what the service has acknowledged), cursor (event-cursor.ts), consumer (one process of the service),
 * generation, reset (docs/events.md). Invariant: only `after` moves the position, never an answer, and never back.
 */
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import type { Actor } from '../../foundation/access/actor.js';
import { Database } from '../../foundation/database/database.js';
import { Environment } from '../../foundation/config/environment.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { AuditLog } from '../audit/audit-log.js';
import {
  END_OF_SEAL,
  formatEventCursor,
  isAfter,
  ORIGIN,
  parseEventCursor,
  SEAL_MARK,
  type EventCursor,
  type EventPosition,
} from './event-cursor.js';
import { EventWaits } from './event-waits.js';
import type { EventType } from './event-types.js';

/** The greatest limit of a poll. */
export const MAX_EVENTS = 500;

/**
 * Builds the statement that reads what a service may read after a position; each parameter is an SQL expression. It is one
 * statement, so that a purge beside it cannot hide events. Each type reads its own part of the index: it compares rows,
 * because with `type = …` PostgreSQL drops the type from the order, and may pass over the events of all other types by the
 * primary key (seconds after a month of logins). The greatest limit stands in a subquery of its own, because the plan of a
 * prepared statement cannot know how few events `limit` is.
 */
const buildRead = (types: string, seal: string, number: string, limit: string): string => `SELECT
    EXISTS (SELECT FROM event_purges AS purge
      WHERE type = ANY (${types}) AND (purge.seal, purge.number) > (${seal}, ${number})) AS "isPurged",
    copied.seal::float8 AS copied,
    COALESCE((SELECT ${SEAL_MARK} FROM audit_seals WHERE number = copied.seal), '') AS "copiedMark",
    COALESCE((SELECT json_agg(json_build_object('seal', next.seal, 'number', next.number, 'id', next.id, 'type', next.type,
        'time', next.time, 'subject', next.subject, 'data', next.data, 'mark', ${SEAL_MARK})
        ORDER BY next.seal, next.number) FROM (
      SELECT found.* FROM unnest(${types}) AS wanted (type)
      CROSS JOIN LATERAL (SELECT * FROM (
        SELECT seal, number, id, type, time, subject, data FROM events
        WHERE (type, seal, number) > (wanted.type, ${seal}, ${number}) AND type <= wanted.type
        ORDER BY type, seal, number LIMIT ${MAX_EVENTS + 1}) AS bounded LIMIT ${limit}) AS found
      ORDER BY found.seal, found.number LIMIT ${limit}) AS next
    JOIN audit_seals ON audit_seals.number = next.seal), '[]') AS events
  FROM event_position AS copied`;
/** `$1`: types, `$2` and `$3`: position, `$4`: limit. */
const READ = buildRead('$1::text[]', '$2::bigint', '$3::integer', '$4::integer');
/**
 * Holds the subscription, and reads after the cursor or, without one, after the position. `$1`: service, `$2`: consumer,
 * `$3`: how many seconds it holds the subscription after a poll, `$4` to `$6`: seal, number and mark of the cursor that
 * it hands back, `$7`: limit. The stored position needs no proof once its seal was folded. Skips a locked row, because
 * polls that wait for a lock would keep their connections and exhaust the pool.
 */
export const HOLD_AND_READ = {
  name: 'events_hold_and_read',
  text: `WITH held AS (
    UPDATE event_subscriptions AS held SET consumer = $2, polled_at = clock_timestamp()
    WHERE service = (SELECT service FROM event_subscriptions WHERE service = $1
      AND (consumer IS NULL OR consumer = $2 OR polled_at < clock_timestamp() - make_interval(secs => $3))
      FOR UPDATE SKIP LOCKED)
    RETURNING types, seal, number, generation, origin, ${ORIGIN} AS present,
      CASE WHEN $4::bigint = 0 THEN $6 = ''
        ELSE EXISTS (SELECT FROM audit_seals WHERE audit_seals.number = $4 AND ${SEAL_MARK} = $6)
          OR (seal = $4 AND number = $5 AND origin = ${ORIGIN} AND seal < (SELECT min(audit_seals.number) FROM audit_seals))
        END AS "isSealKnown")
  SELECT types, held.seal::float8, number, generation, origin, present, "isSealKnown",
    "isPurged", copied, "copiedMark", events
  FROM held CROSS JOIN LATERAL (
    ${buildRead('held.types', 'COALESCE($4::bigint, held.seal)', 'COALESCE($5::integer, held.number)', '$7::integer')}) AS read`,
};
/** `$1` to `$3` as for {@link HOLD_AND_READ}. A consumer that holds the subscription itself met a lock, which ends soon. */
const FIND_HOLDER = `SELECT CASE WHEN consumer <> $2
    THEN ceil($3 - extract(epoch FROM clock_timestamp() - polled_at))::integer ELSE 1 END AS seconds
  FROM event_subscriptions WHERE service = $1`;
/**
 * `$1`: service, `$2` to `$4`: seal, number and origin of the cursor, `$5` to `$7`: generation, consumer and origin as
 * {@link HOLD_AND_READ} found them. Judges again what may have changed since (another poll, a takeover, a rewind, a
 * failover), and never moves back within one history. Skips a locked row: the cursor, or a later one, comes again.
 */
const MOVE = {
  name: 'events_move',
  text: `UPDATE event_subscriptions SET seal = $2, number = $3, origin = $4, updated_at = clock_timestamp()
    WHERE service = (SELECT service FROM event_subscriptions WHERE service = $1 FOR UPDATE SKIP LOCKED)
      AND generation = $5 AND consumer = $6 AND origin IS NOT DISTINCT FROM $7::text AND ${ORIGIN} = $4
      AND (origin IS DISTINCT FROM $4 OR (seal, number) < ($2, $3))`,
};
/** The deletions between two positions of which the service has no receipt yet, as it has after a rewind. */
const UNRECEIPTED = `SELECT id, subject FROM events
  WHERE type = 'user.deleted' AND (seal, number) > ($2::bigint, $3::integer) AND (seal, number) <= ($4::bigint, $5::integer)
    AND NOT EXISTS (SELECT FROM audit_events WHERE audit_events.subject = events.subject
      AND event = 'user.deletion.acknowledged' AND details ->> 'service' = $1 AND details ->> 'deletion' = events.id::text)
  ORDER BY seal, number`;

interface Poll {
  readonly service: string;
  readonly consumer: string;
  readonly after: string | undefined;
  readonly limit: number;
  readonly waitSeconds: number;
  readonly actor: Actor;
  /** Verifies the key of the service again, which may be revoked while the poll waits. @throws {ProblemException} */
  readonly verifyAgain: () => Promise<unknown>;
  /** Whether the client has closed its connection, so that no process of the service gets the answer. */
  readonly isAbandoned: () => boolean;
}

interface Event {
  readonly id: string;
  readonly type: EventType;
  readonly time: string;
  readonly subject: string;
  readonly data: Readonly<Record<string, unknown>>;
}

type StoredEvent = Event & EventPosition & { readonly mark: string };

export interface ReadEvent extends Event {
  readonly cursor: string;
}

/** With a reset cursor, events may be missing: the service takes the cursor, and then compares its data with the API. */
export interface Batch {
  readonly events: readonly ReadEvent[];
  readonly hasMore: boolean;
  readonly resetCursor: string | undefined;
}

interface Read {
  /** Whether a purge took events after the position at which it reads. */
  readonly isPurged: boolean;
  readonly copied: number;
  readonly copiedMark: string;
  readonly events: StoredEvent[];
}

/** The subscription, and what lies after the cursor or, without one, after the position. */
interface Held extends EventPosition, Read {
  readonly types: EventType[];
  readonly generation: number;
  readonly origin: string | null;
  readonly present: string;
  /** Whether the seal of the cursor is one of this history. */
  readonly isSealKnown: boolean;
}

/** What one read found, and what a poll that waits must know to read again. */
interface ReadResult {
  readonly batch: Batch;
  readonly types: readonly EventType[];
  readonly copied: number;
}

@Injectable()
export class EventFeed {
  constructor(
    private readonly database: Database,
    private readonly dataSource: DataSource,
    private readonly waits: EventWaits,
    private readonly audit: AuditLog,
    private readonly environment: Environment,
  ) {}

  /**
   * A long poll: answers at once when there are events to read, else after the wait, during which it holds neither a
   * connection nor a lock.
   * @throws {ProblemException} not_subscribed; events_busy while another consumer holds the subscription, or its row is locked
   */
  async readEvents(poll: Poll): Promise<Batch> {
    const first = await this.readOnce(poll);
    const isEmpty = first.batch.events.length === 0 && first.batch.resetCursor === undefined;
    if (!isEmpty || poll.waitSeconds === 0) return first.batch;
    const mayHaveEvents = await this.waits.wait(poll.service, first.types, first.copied, poll.waitSeconds * 1_000);
    // A second read would hold the subscription for a process that may have ended, while another one stands by.
    if (!mayHaveEvents || poll.isAbandoned()) return first.batch;
    await poll.verifyAgain();
    return (await this.readOnce(poll)).batch;
  }

  /**
   * Needs no transaction, because MOVE judges again what HOLD_AND_READ found. Events that were read before a concurrent
   * takeover or rewind are only told twice.
   */
  private async readOnce(poll: Poll): Promise<ReadResult> {
    const { service, consumer, after, limit } = poll;
    const cursor = after === undefined ? undefined : parseEventCursor(after);
    const hold = [service, consumer, this.environment.eventHoldSeconds];
    const values = [...hold, cursor?.seal, cursor?.number, cursor?.mark, limit + 1];
    const held = await this.database.row<Held>(HOLD_AND_READ, values);
    if (!held) throw await this.findRefusal(hold);
    const from = after === undefined ? getStored(held) : judgeCursor(cursor, held);
    if (cursor && from === cursor) await this.acknowledge(poll, held, cursor);
    // The cursor after which it has read is from before a rewind: the service continues at the position.
    const read = cursor && from === held ? await this.read(held, limit + 1) : held;
    const { types, generation, present: origin } = held;
    const { copied } = read;
    if (!from || read.isPurged) {
      const end = { seal: copied, number: END_OF_SEAL, mark: read.copiedMark };
      const resetCursor = formatEventCursor({ ...end, generation, isReset: true, origin });
      return { batch: { events: [], hasMore: false, resetCursor }, types, copied };
    }
    // Field by field, because V8 spreads a parsed object into a slow dictionary.
    const events = read.events.slice(0, limit).map(({ seal, number, mark, id, type, time, subject, data }) => {
      const cursor = formatEventCursor({ seal, number, mark, generation, isReset: false, origin });
      return { id, type, time, subject, data, cursor };
    });
    return { batch: { events, hasMore: read.events.length > limit, resetCursor: undefined }, types, copied };
  }

  private async read({ types, seal, number }: Held, limit: number): Promise<Read> {
    const [read] = await this.dataSource.query<[Read]>(READ, [types, seal, number, limit]);
    return read;
  }

  private async findRefusal(hold: readonly unknown[]): Promise<ProblemException> {
    const [holder] = await this.dataSource.query<{ seconds: number }[]>(FIND_HOLDER, [...hold]);
    if (!holder) return new ProblemException(problems.notSubscribed);
    const headers = { 'Retry-After': String(Math.max(1, holder.seconds)) };
    return new ProblemException(problems.eventsBusy, { headers });
  }

  /** Moves the position to a cursor that was judged valid, but never back. */
  private async acknowledge(poll: Poll, held: Held, cursor: EventCursor): Promise<void> {
    const stored = getStored(held);
    if (stored && !isAfter(cursor, stored)) return;
    const { seal, number } = cursor;
    const move = [poll.service, seal, number, held.present, held.generation, poll.consumer, held.origin];
    if (stored && !cursor.isReset && held.types.includes('user.deleted'))
      await this.dataSource.transaction(async (transaction) => {
        const [, moved] = await transaction.query<[unknown, number]>(MOVE.text, move);
        if (moved > 0) await this.recordReceipts(transaction, poll, stored, cursor);
      });
    else await this.database.rows(MOVE, move);
  }

  private async recordReceipts(
    transaction: EntityManager,
    { service, actor }: Poll,
    from: EventPosition,
    to: EventPosition,
  ): Promise<void> {
    const values = [service, from.seal, from.number, to.seal, to.number];
    for (const { id, subject } of await transaction.query<Pick<StoredEvent, 'id' | 'subject'>[]>(UNRECEIPTED, values)) {
      const details = { service, deletion: id };
      await this.audit.record(transaction, { event: 'user.deletion.acknowledged', actor, subject, details });
    }
  }
}

/** The position of another history may be restored together with it, so it is judged like a cursor. */
function getStored(held: Held): EventPosition | undefined {
  return held.origin === held.present ? held : undefined;
}

/**
 * Judges in this order: the history, by its name and by the MAC of a seal, because numbers of seals are assigned anew
 * after a restore; what a purge took since; the generation.
 * @returns where to read on; undefined when that is unknown
 */
function judgeCursor(cursor: EventCursor | undefined, held: Held): EventPosition | undefined {
  if (cursor?.origin !== held.present || !held.isSealKnown || held.isPurged) return undefined;
  return cursor.generation === held.generation ? cursor : getStored(held);
}
