/**
 * What a service reads: the events of its types after its position, at least once and in the order of the seals. Terms:
 * position (what the service has acknowledged), cursor (event-cursor.ts), consumer (one process of the service),
 * generation, reset (docs/events.md). Invariant: only `after` moves the position, never an answer, and never back.
 */
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import type { Actor } from '../../foundation/access/actor.js';
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

/**
 * `$1`: service, `$2`: consumer, `$3`: how many seconds it holds the subscription after a poll. Skips a locked row,
 * because polls that wait for a lock would keep their connections and exhaust the pool.
 */
const HOLD = `UPDATE event_subscriptions SET consumer = $2, polled_at = clock_timestamp()
  WHERE service = (SELECT service FROM event_subscriptions WHERE service = $1
    AND (consumer IS NULL OR consumer = $2 OR polled_at < clock_timestamp() - make_interval(secs => $3))
    FOR UPDATE SKIP LOCKED)
  RETURNING types, seal::float8, number, generation, origin, ${ORIGIN} AS present`;
/** Of the same values. A consumer that holds the subscription itself met a lock, which ends soon. */
const FIND_HOLDER = `SELECT CASE WHEN consumer <> $2
    THEN ceil($3 - extract(epoch FROM clock_timestamp() - polled_at))::integer ELSE 1 END AS seconds
  FROM event_subscriptions WHERE service = $1`;
/** `$3`: whether it is the stored position, which needs no proof once its seal was folded. */
const FIND_SEAL = `SELECT FROM audit_seals WHERE number = $1 AND ${SEAL_MARK} = $2
  UNION ALL SELECT WHERE $3 AND $1 < (SELECT min(number) FROM audit_seals)`;
/** `$1`: types, `$2` and `$3`: position. */
const IS_PURGED =
  'EXISTS (SELECT FROM event_purges WHERE type = ANY ($1) AND (seal, number) > ($2::bigint, $3::integer))';
const FIND_PURGED = `SELECT ${IS_PURGED} AS "isPurged"`;
/**
 * One statement, so that a purge between its parts cannot hide events. Each type reads its own part of the index. It is
 * no equation, because PostgreSQL then drops the type from the order, and may pass over the events of all other types
 * by the primary key: seconds after a month of logins.
 */
const READ = `SELECT ${IS_PURGED} AS "isPurged", copied.seal::float8 AS copied,
    COALESCE((SELECT ${SEAL_MARK} FROM audit_seals WHERE number = copied.seal), '') AS "copiedMark",
    COALESCE((SELECT jsonb_agg(to_jsonb(next) ORDER BY next.seal, next.number) FROM (
      SELECT found.*, ${SEAL_MARK} AS mark FROM unnest($1::text[]) AS wanted (type)
      CROSS JOIN LATERAL (
        SELECT seal, number, id, type, time, subject, data FROM events
        WHERE (type, seal, number) > (wanted.type, $2, $3) AND type <= wanted.type ORDER BY type, seal, number LIMIT $4) AS found
      JOIN audit_seals ON audit_seals.number = found.seal
      ORDER BY found.seal, found.number LIMIT $4) AS next), '[]') AS events
  FROM event_position AS copied`;
const MOVE = `UPDATE event_subscriptions SET seal = $2, number = $3, origin = $4, updated_at = clock_timestamp()
  WHERE service = $1`;
/** The deletions between two positions of which the service has no receipt yet, as it has after a rewind. */
const UNRECEIPTED = `SELECT id, subject FROM events
  WHERE type = 'user.deleted' AND (seal, number) > ($2::bigint, $3::integer) AND (seal, number) <= ($4::bigint, $5::integer)
    AND NOT EXISTS (SELECT FROM audit_events WHERE audit_events.subject = events.subject
      AND event = 'user.deletion.acknowledged' AND details ->> 'service' = $1 AND details ->> 'deletion' = events.id::text)
  ORDER BY seal, number`;

export interface Poll {
  readonly service: string;
  readonly consumer: string;
  readonly after: string | undefined;
  readonly limit: number;
  readonly waitSeconds: number;
  readonly actor: Actor;
  /** Verifies the key of the service again, which may be revoked while the poll waits. @throws {ProblemException} */
  readonly verifyAgain: () => Promise<unknown>;
}

interface StoredEvent extends EventPosition {
  readonly id: string;
  readonly type: EventType;
  readonly time: string;
  readonly subject: string;
  readonly data: Readonly<Record<string, unknown>>;
  readonly mark: string;
}

export interface ReadEvent extends StoredEvent {
  readonly cursor: string;
}

/** With a reset cursor, events may be missing: the service takes the cursor, and then compares its data with the API. */
export interface Batch {
  readonly events: readonly ReadEvent[];
  readonly hasMore: boolean;
  readonly resetCursor: string | undefined;
}

interface Held extends EventPosition {
  readonly types: EventType[];
  readonly generation: number;
  readonly origin: string | null;
  readonly present: string;
}

interface Read {
  readonly isPurged: boolean;
  readonly copied: number;
  readonly copiedMark: string;
  readonly events: StoredEvent[];
}

/** What one read found, and what a poll that waits must know to read again. */
type ReadResult =
  { readonly batch: Batch; readonly types: readonly EventType[]; readonly copied: number } | ProblemException;

@Injectable()
export class EventFeed {
  constructor(
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
    if (!mayHaveEvents) return first.batch;
    await poll.verifyAgain();
    return (await this.readOnce(poll)).batch;
  }

  private async readOnce(poll: Poll): Promise<Exclude<ReadResult, ProblemException>> {
    const result = await this.dataSource.transaction((transaction) => this.readWithin(transaction, poll));
    if (result instanceof ProblemException) throw result;
    return result;
  }

  private async readWithin(transaction: EntityManager, poll: Poll): Promise<ReadResult> {
    const { service, consumer, after, limit } = poll;
    const hold = [service, consumer, this.environment.eventHoldSeconds];
    const [[held]] = await transaction.query<[Held[], number]>(HOLD, hold);
    if (!held) return findRefusal(transaction, hold);
    const from = await this.findStart(transaction, poll, held, after);
    const { seal, number } = from ?? held;
    const [read] = await transaction.query<Read[]>(READ, [held.types, seal, number, limit + 1]);
    if (!read) throw new Error('event_position has no row');
    const { types, generation, present: origin } = held;
    const { copied } = read;
    if (!from || read.isPurged) {
      const end = { seal: copied, number: END_OF_SEAL, mark: read.copiedMark };
      const resetCursor = formatEventCursor({ ...end, generation, isReset: true, origin });
      return { batch: { events: [], hasMore: false, resetCursor }, types, copied };
    }
    const events = read.events.slice(0, limit).map((event) => {
      return { ...event, cursor: formatEventCursor({ ...event, generation, isReset: false, origin }) };
    });
    return { batch: { events, hasMore: read.events.length > limit, resetCursor: undefined }, types, copied };
  }

  /**
   * Judges the cursor in this order: its history, what a purge took since, its generation.
   * @returns where to read on; undefined when that is unknown
   */
  private async findStart(
    transaction: EntityManager,
    poll: Poll,
    held: Held,
    text: string | undefined,
  ): Promise<EventPosition | undefined> {
    // The position of another history may be restored together with it, so it is judged like a cursor.
    const stored = held.origin === held.present ? held : undefined;
    if (text === undefined) return stored;
    const after = parseEventCursor(text);
    if (after?.origin !== held.present) return undefined;
    const isStored = stored?.seal === after.seal && stored.number === after.number;
    if (!(await isOfSeal(transaction, after, isStored))) return undefined;
    const [purge] = await transaction.query<{ isPurged: boolean }[]>(FIND_PURGED, [
      held.types,
      after.seal,
      after.number,
    ]);
    if (purge?.isPurged) return undefined;
    if (after.generation !== held.generation) return stored;
    if (!stored || isAfter(after, stored)) await this.moveTo(transaction, poll, held, after);
    return after;
  }

  private async moveTo(transaction: EntityManager, poll: Poll, held: Held, after: EventCursor): Promise<void> {
    const { service } = poll;
    const isDelivered = !after.isReset && held.origin === held.present && held.types.includes('user.deleted');
    if (isDelivered) await this.recordReceipts(transaction, poll, held, after);
    await transaction.query(MOVE, [service, after.seal, after.number, held.present]);
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

async function findRefusal(transaction: EntityManager, hold: readonly unknown[]): Promise<ProblemException> {
  const [holder] = await transaction.query<{ seconds: number }[]>(FIND_HOLDER, [...hold]);
  if (!holder) return new ProblemException(problems.notSubscribed);
  return new ProblemException(problems.eventsBusy, { headers: { 'Retry-After': String(Math.max(1, holder.seconds)) } });
}

/** Numbers of seals are assigned anew after a restore, but a seal with other rows has another MAC. */
async function isOfSeal(transaction: EntityManager, { seal, mark }: EventCursor, isStored: boolean): Promise<boolean> {
  if (seal === 0) return mark === '';
  return (await transaction.query<object[]>(FIND_SEAL, [seal, mark, isStored])).length > 0;
}
