import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import type { Actor } from '../../foundation/access/actor.js';
import { SERVICE_NAME_FORMAT } from '../../foundation/common/names.js';
import type { AuditEventName } from '../../foundation/common/security-events.js';
import { Environment } from '../../foundation/config/environment.js';
import { createFieldProblem, ProblemException, problems } from '../../foundation/problems/problems.js';
import { AuditLog } from '../audit/audit-log.js';
import { END_OF_SEAL, isAfter, ORIGIN, type EventPosition } from './event-cursor.js';
import { EVENT_TYPES, formatEventId, type EventType } from './event-types.js';

/** Unread events are counted up to this number of each type, so that the state of a lagging service costs no scan. */
const MAX_COUNTED = 1_000;

/** The unread events of a subscription, by its types; each type reads its own part of the index, as in EventFeed. */
const unread = (
  columns: string,
  limit: number | string,
  types = 'subscribed.types',
): string => `SELECT found.* FROM unnest(${types}) AS wanted (type)
  CROSS JOIN LATERAL (SELECT ${columns} FROM events
    WHERE (events.type, events.seal, events.number) > (wanted.type, subscribed.seal, subscribed.number)
      AND events.type <= wanted.type
    ORDER BY events.type, events.seal, events.number LIMIT ${limit}) AS found`;
/** The oldest unread event of the subscription `subscribed`. */
export const OLDEST_UNREAD = `${unread('events.*', 1)} ORDER BY found.seal, found.number LIMIT 1`;

/** Null for a service that reads no deletions, which has none then. */
const DELETION_TYPES = `CASE WHEN 'user.deleted' = ANY (subscribed.types) THEN '{user.deleted}'::text[] END`;

const READ = `SELECT service, types, created_at AS "createdAt", polled_at AS "polledAt",
    origin IS DISTINCT FROM (${ORIGIN}) AS "needsReset",
    (SELECT count(*)::integer FROM (${unread('events.type', MAX_COUNTED)}) AS counted) AS unread,
    (SELECT count(*)::integer FROM (${unread('events.type', MAX_COUNTED, DELETION_TYPES)}) AS counted) AS "unreadDeletions",
    (SELECT jsonb_build_object('id', id, 'type', type, 'time', time, 'subject', subject) FROM (${OLDEST_UNREAD}) AS first)
      AS oldest
  FROM event_subscriptions AS subscribed`;
const LIST_UNREAD_DELETIONS = `SELECT service, counted.* FROM event_subscriptions AS subscribed CROSS JOIN LATERAL (
    SELECT count(*)::integer AS count, min(time) AS since
    FROM (${unread('events.time', MAX_COUNTED, DELETION_TYPES)}) AS deletion) AS counted
  WHERE count > 0 ORDER BY service`;

/** The position before the oldest events of the types: that of the last purge of one of them. */
const BEGINNING = `SELECT seal::float8, number FROM (
    SELECT seal, number FROM event_purges WHERE type = ANY ($1::text[]) UNION ALL SELECT 0, 0) AS purged
  ORDER BY seal DESC, number DESC LIMIT 1`;
const END = `SELECT seal::float8, ${END_OF_SEAL} AS number FROM event_position`;
/** `$1`: service, `$2`: this service, at which the credential is valid. */
const FIND_CREDENTIAL = `SELECT FROM app_credentials WHERE caller = $1 AND target = $2
  AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())`;
const LOCK = `SELECT types, seal::float8, number FROM event_subscriptions WHERE service = $1 FOR UPDATE`;
/** A random generation, so that a cursor of a removed subscription continues at the position of its successor. */
const INSERT = `INSERT INTO event_subscriptions (service, types, seal, number, generation, origin, created_at, updated_at)
  SELECT $2::text, $1::text[], seal, number, (random() * 1e9)::integer, ${ORIGIN}, clock_timestamp(), clock_timestamp()`;
const CHANGE_TYPES = `UPDATE event_subscriptions
  SET types = $2, generation = generation + $3, updated_at = clock_timestamp() WHERE service = $1`;
/** Keeps the origin, so that a restore which the service has not noticed yet is still answered with a reset. */
const SET_POSITION = `UPDATE event_subscriptions
  SET seal = $2, number = $3, generation = generation + 1, updated_at = clock_timestamp() WHERE service = $1`;
/**
 * The first in the order of seals, which is not that of times: a slow transaction is sealed after later acts. The sum keeps
 * the planner from the index of that order, in which it would pass over all earlier events.
 */
const FIRST_SINCE = `SELECT seal::float8, number - 1 AS number FROM events
  WHERE time >= $1 ORDER BY events.seal + 0, events.number LIMIT 1`;
const LIST_UNREAD = `SELECT next.id, next.type, next.time::text, next.subject
  FROM event_subscriptions AS subscribed CROSS JOIN LATERAL (${unread('events.*', '$2::integer')}) AS next
  WHERE service = $1 ORDER BY next.seal, next.number LIMIT $2`;
const NEXT_UNREAD = `SELECT next.id, next.type, next.seal::float8, next.number
  FROM event_subscriptions AS subscribed CROSS JOIN LATERAL (${OLDEST_UNREAD}) AS next WHERE service = $1`;
const RESET = `UPDATE event_subscriptions
  SET origin = NULL, generation = generation + 1, updated_at = clock_timestamp() RETURNING service`;

export interface Subscription {
  readonly service: string;
  readonly types: EventType[];
  readonly createdAt: Date;
  readonly polledAt: Date | null;
  /** Whether the next poll is answered with a reset, as after a restore. */
  readonly needsReset: boolean;
  readonly unread: number;
  readonly unreadDeletions: number;
  readonly oldest: UnreadEvent | null;
}

/** The deletions of users that a service has not acknowledged. */
export interface UnreadDeletions {
  readonly service: string;
  /** At most {@link MAX_COUNTED}. */
  readonly count: number;
  /** Time of the oldest one. */
  readonly since: Date;
}

export interface UnreadEvent {
  readonly id: string;
  readonly type: EventType;
  readonly time: string;
  readonly subject: string;
}

type SubscriptionStart = 'now' | 'beginning';

type Locked = EventPosition & { readonly types: EventType[] };

/** Subscriptions: the types of events that each service reads, and its position. Operators and the service itself move it. */
@Injectable()
export class SubscriptionsService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly audit: AuditLog,
    private readonly environment: Environment,
  ) {}

  async listSubscriptions(): Promise<Subscription[]> {
    return this.dataSource.query<Subscription[]>(`${READ} ORDER BY service`);
  }

  /** @returns those of each service that has any; the other counts of a subscription are not needed, and cost more */
  async listUnreadDeletions(): Promise<UnreadDeletions[]> {
    return this.dataSource.query<UnreadDeletions[]>(LIST_UNREAD_DELETIONS);
  }

  /** @throws {ProblemException} not_found */
  async getSubscription(service: string): Promise<Subscription> {
    if (!SERVICE_NAME_FORMAT.isName(service)) throw new ProblemException(problems.notFound);
    return readSubscription(this.dataSource, service);
  }

  /** @returns the oldest events that the service has not acknowledged @throws {ProblemException} not_found */
  async listUnread(service: string, limit: number): Promise<UnreadEvent[]> {
    await this.getSubscription(service);
    return this.dataSource.query<UnreadEvent[]>(LIST_UNREAD, [service, limit]);
  }

  /**
   * Idempotent. Added types begin at the position.
   * @param start of a new subscription
   * @throws {ProblemException} invalid fields unless the service has a live app credential with which it can read
   */
  async setSubscription(
    service: string,
    wanted: readonly EventType[],
    start: SubscriptionStart,
    actor: Actor,
  ): Promise<Subscription> {
    const types = EVENT_TYPES.filter((type) => wanted.includes(type));
    return this.dataSource.transaction(async (transaction) => {
      await this.refuseUnknownService(transaction, service);
      const held = await insertOrLockSubscription(transaction, service, types, start);
      const isNew = held === undefined;
      const before = held?.types ?? [];
      // An earlier cursor must not pass over the events of an added type, so it becomes void with its generation.
      const isAdded = types.some((type) => !before.includes(type));
      if (!isNew) await transaction.query(CHANGE_TYPES, [service, types, Number(isAdded)]);
      const details = isNew ? { types, from: start } : {};
      const logFields = { called_service: service };
      const act = { event: 'admin.event_subscription.set', actor, subject: service, details, logFields } as const;
      if (isNew) await this.audit.record(transaction, act);
      else await this.audit.recordChange(transaction, act, { types: before }, { types });
      // Read before the commit, after which another call may remove it.
      return readSubscription(transaction, service);
    });
  }

  /** @throws {ProblemException} not_found */
  async removeSubscription(service: string, actor: Actor): Promise<void> {
    await this.changePosition(service, actor, 'admin.event_subscription.removed', async (transaction, { types }) => {
      await transaction.query('DELETE FROM event_subscriptions WHERE service = $1', [service]);
      return { before: { types } };
    });
  }

  /**
   * Moves the position back, so that the service reads events again. Cursors in flight do not undo it.
   * @param to null for the beginning
   * @throws {ProblemException} not_found
   */
  async rewindSubscription(service: string, to: Date | null, actor: Actor): Promise<void> {
    await this.changePosition(service, actor, 'admin.event_subscription.rewound', async (transaction, held) => {
      const [beginning] = await transaction.query<[EventPosition]>(BEGINNING, [held.types]);
      const [since = held] = to === null ? [beginning] : await transaction.query<EventPosition[]>(FIRST_SINCE, [to]);
      const target = isAfter(held, since) ? since : held;
      await transaction.query(SET_POSITION, [service, target.seal, target.number]);
      return { to };
    });
  }

  /**
   * Passes over the oldest unread event, or all of them. No receipt is recorded, because the service did not read them.
   * @param event the id of the oldest unread event, so that a late or repeated call passes over no other one
   * @throws {ProblemException} not_found; event_not_next
   */
  async skipEvents(
    service: string,
    { all, event }: { readonly all: boolean; readonly event: string | undefined },
    actor: Actor,
  ): Promise<void> {
    await this.changePosition(service, actor, 'admin.event_subscription.skipped', async (transaction) => {
      const [next] = await transaction.query<(EventPosition & { id: string; type: EventType })[]>(NEXT_UNREAD, [
        service,
      ]);
      const id = next && formatEventId(next.id, next.type);
      if (event !== undefined && event !== id) throw new ProblemException(problems.eventNotNext);
      if (!next) return undefined;
      const [end] = all ? await transaction.query<[EventPosition]>(END) : [next];
      await transaction.query(SET_POSITION, [service, end.seal, end.number]);
      return { from: id, all };
    });
  }

  /** For a restore: answers the next poll of each service with a reset, because events may be lost. @returns the services */
  async resetSubscriptions(actor: Actor): Promise<string[]> {
    return this.dataSource.transaction(async (transaction) => {
      const [rows] = await transaction.query<[{ service: string }[], number]>(RESET);
      for (const { service } of rows)
        await this.audit.record(transaction, { event: 'admin.event_subscription.reset', actor, subject: service });
      return rows.map(({ service }) => service);
    });
  }

  private async refuseUnknownService(transaction: EntityManager, service: string): Promise<void> {
    const { serviceName } = this.environment;
    if (!SERVICE_NAME_FORMAT.isName(service)) throw createFieldProblem('/service', SERVICE_NAME_FORMAT.detail);
    if (service.toLowerCase() === serviceName.toLowerCase())
      throw createFieldProblem('/service', 'is this service itself, which reads no events');
    const found = await transaction.query<object[]>(FIND_CREDENTIAL, [service, serviceName]);
    if (found.length === 0)
      throw createFieldProblem('/service', `has no live app credential for ${serviceName}, with which it reads events`);
  }

  /** @param work returns the details of the act, or undefined when it changed nothing */
  private async changePosition(
    service: string,
    actor: Actor,
    event: Extract<AuditEventName, `admin.event_subscription.${string}`>,
    work: (transaction: EntityManager, held: Locked) => Promise<Record<string, unknown> | undefined>,
  ): Promise<void> {
    await this.dataSource.transaction(async (transaction) => {
      const details = await work(transaction, await lockSubscription(transaction, service));
      const act = { event, actor, subject: service, details: details ?? {}, logFields: { called_service: service } };
      await this.audit.record(transaction, act, details !== undefined);
    });
  }
}

async function readSubscription(source: DataSource | EntityManager, service: string): Promise<Subscription> {
  const [found] = await source.query<Subscription[]>(`${READ} WHERE service = $1`, [service]);
  if (!found) throw new ProblemException(problems.notFound);
  return found;
}

/** Tries again when another call removes the subscription between the two statements. @returns undefined for a new one */
async function insertOrLockSubscription(
  transaction: EntityManager,
  service: string,
  types: readonly EventType[],
  start: SubscriptionStart,
): Promise<Locked | undefined> {
  const source = start === 'beginning' ? BEGINNING : END;
  const insert = `${INSERT} FROM (${source}) AS start ON CONFLICT DO NOTHING RETURNING service`;
  for (;;) {
    if ((await transaction.query<object[]>(insert, [types, service])).length > 0) return undefined;
    const [held] = await transaction.query<Locked[]>(LOCK, [service]);
    if (held) return held;
  }
}

async function lockSubscription(transaction: EntityManager, service: string): Promise<Locked> {
  if (!SERVICE_NAME_FORMAT.isName(service)) throw new ProblemException(problems.notFound);
  const [held] = await transaction.query<Locked[]>(LOCK, [service]);
  if (!held) throw new ProblemException(problems.notFound);
  return held;
}
