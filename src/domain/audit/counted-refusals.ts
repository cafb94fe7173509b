import { Injectable } from '@nestjs/common';
import { createId } from '../../foundation/common/ids.js';
import { KEY_KINDS } from '../../foundation/common/key-kinds.js';
import { Environment } from '../../foundation/config/environment.js';
import { deriveKey, computeMac } from '../../foundation/crypto/secret.js';
import { Database } from '../../foundation/database/database.js';
import { DeferredWrites } from './deferred-writes.js';
import { Log } from '../../foundation/logging/log.js';
import type { Actor } from '../../foundation/access/actor.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { ProblemException, type RefusalEvent, type Problem } from '../../foundation/problems/problems.js';
import { insertAuditEvents, selectAuditEvents, type ColumnExpressions } from './audit-events.js';

export const WINDOW_MS = 15 * 60_000;
/**
 * Time after which an ended window gets no more counts: from a replica with a slow clock, from a refusal that waits to
 * be flushed, or from a statement that PostgreSQL has not finished.
 */
const CLOCK_TOLERANCE_MS = 60_000;
const BATCH_SIZE = 1_000;
/** Limits the memory, and the rows that one replica writes. Further refusals are only logged. */
const MAX_DEFERRED = 1_000;
/**
 * Number of rows that refusals without an account share in each window, so that random addresses do not fill the disk.
 */
const MAX_UNKNOWN_ROWS = 256;
/** What one row keeps: a later request id replaces the oldest one, and a further address the rarest one. */
export const MAX_REQUEST_IDS = 20;
const MAX_ADDRESSES = 16;
const SHOWN_ADDRESSES = 5;

export const COUNTED_EVENTS = [
  'user.login.failed',
  'user.second_factor.failed',
  'user.access.refused',
  'token.exchange.refused',
  'admin.key.refused',
  'admin.scope.refused',
  'admin.console.refused',
  ...Object.values(KEY_KINDS).flatMap(({ refusalEvent }) => refusalEvent ?? []),
] as const;
type CountedEvent = (typeof COUNTED_EVENTS)[number];

/**
 * Finds frequent addresses in bounded space ("space-saving", Metwally et al. 2005): an address that is not among the kept
 * ones takes the place and the count of the rarest, so that one that comes late and often is not pushed out.
 */
const MERGED_ADDRESSES = `(
  SELECT COALESCE(jsonb_object_agg(address, n), '{}') FROM (
    SELECT COALESCE(known.key, added.key) AS address,
      COALESCE(known.value::int, rarest.n) + COALESCE(added.value::int, 0) AS n
    FROM jsonb_each_text(counted.addresses) AS known
      FULL JOIN jsonb_each_text(excluded.addresses) AS added ON added.key = known.key
      CROSS JOIN (SELECT CASE WHEN count(*) < ${MAX_ADDRESSES} THEN 0 ELSE min(value::int) END AS n
                  FROM jsonb_each_text(counted.addresses)) AS rarest
    ORDER BY n DESC, known.key IS NULL DESC LIMIT ${MAX_ADDRESSES}) AS kept)`;

const COUNT = {
  name: 'counted_refusals_count',
  text: `INSERT INTO counted_refusals AS counted
           (event, counted_mac, window_start, id, time, last_at, subject, request_id, caller_request_id, address,
            count, reasons, addresses, request_ids)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text, $9, $10, $12, jsonb_build_object($11::text, $12::int), $13, $14)
         ON CONFLICT (event, counted_mac, window_start) DO UPDATE
         SET count = counted.count + $12, last_at = GREATEST(counted.last_at, excluded.last_at),
             addresses = ${MERGED_ADDRESSES},
             request_ids = (array_remove(excluded.request_ids || $8::text::uuid, NULL) || counted.request_ids)
               [1:${MAX_REQUEST_IDS}],
             reasons = counted.reasons ||
               jsonb_build_object($11::text, COALESCE((counted.reasons ->> $11)::int, 0) + $12)`,
};

const IS_USER = `event = 'user.access.refused'`;
const IS_OPERATOR = `event = 'admin.scope.refused'`;
/** Whether the node's key was right: any client can send the id of a node with a wrong key. */
const IS_PROVEN_NODE = `(event = 'node.validation.failed' AND reasons - 'target' = '{}')`;
/**
 * Read when the row is listed or moved, because a name never changes, and an operator is purged a year after its last
 * refusal at the earliest.
 */
const SELECT_OPERATOR = `CASE WHEN ${IS_OPERATOR}
  THEN (SELECT name FROM operators WHERE operators.id::text = subject) END`;
const FREQUENT_ADDRESSES = `(
  SELECT jsonb_agg(key ORDER BY value::int DESC, key) FROM
    (SELECT * FROM jsonb_each_text(addresses) ORDER BY value::int DESC, key LIMIT ${SHOWN_ADDRESSES}) AS frequent
  HAVING count(*) > 1)`;

const EXPRESSIONS: ColumnExpressions = {
  id: 'id',
  time: 'time',
  event: 'event',
  actor_door: `CASE WHEN ${IS_USER} THEN 'user' WHEN ${IS_OPERATOR} THEN 'admin' WHEN ${IS_PROVEN_NODE} THEN 'node'
    ELSE 'open' END`,
  actor_id: `CASE WHEN ${IS_USER} OR ${IS_OPERATOR} OR ${IS_PROVEN_NODE} THEN subject END`,
  subject: 'subject',
  request_id: 'request_id',
  address: 'address',
  details: `jsonb_strip_nulls(jsonb_build_object('reasons', reasons,
    'last_at', to_char(last_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    'caller_request_id', caller_request_id, 'operator', ${SELECT_OPERATOR}, 'addresses', ${FREQUENT_ADDRESSES},
    'request_ids', to_jsonb(NULLIF(request_ids, '{}'))))`,
  count: 'count',
};

export const OPEN_WINDOWS = `${selectAuditEvents(EXPRESSIONS)} FROM counted_refusals`;

const MOVE_CLOSED = {
  name: 'counted_refusals_move_closed',
  text: `WITH closed AS (
           DELETE FROM counted_refusals WHERE (event, counted_mac, window_start) IN
             (SELECT event, counted_mac, window_start FROM counted_refusals
              WHERE window_start <= $1 LIMIT ${BATCH_SIZE} FOR UPDATE SKIP LOCKED)
           RETURNING *)
         ${insertAuditEvents(EXPRESSIONS)} FROM closed RETURNING id`,
};

interface Count {
  /** What is counted: a canonical e-mail address, a network, or the id of a user, operator, app credential or node. */
  readonly counted: string;
  /** Undefined when the refusal concerns no known account. */
  readonly subject?: string | undefined;
}

interface RefusalToCount extends Count {
  readonly event: CountedEvent;
  readonly reason: string;
}

/** Refusals with the same event, reason and subject that are not written yet. */
interface DeferredRefusal {
  readonly refusal: RefusalToCount;
  readonly actor: Actor;
  readonly firstAt: Date;
  lastAt: Date;
  count: number;
  /** How often each address was refused, of at most {@link MAX_ADDRESSES}. */
  readonly addresses: Map<string, number>;
  /** Those after the first request, the latest one first. */
  requestIds: readonly string[];
}

export interface CountedRefusal extends Count {
  readonly problem: Problem;
  readonly refusal: Extract<RefusalEvent, { event: CountedEvent }>;
  readonly members?: object;
}

/**
 * Counts the refusals of {@link COUNTED_EVENTS} across all replicas: one row for each account, network, operator, app
 * credential or node and window of 15 minutes. The row has the request id and the address of the first refusal, the last
 * {@link MAX_REQUEST_IDS} request ids, and the most frequent addresses.
 */
@Injectable()
export class CountedRefusals extends DeferredWrites<[DeferredRefusal]> {
  private readonly key;
  private deferred = new Map<string, DeferredRefusal>();

  constructor(
    environment: Environment,
    private readonly database: Database,
    private readonly clock: ComparedClock,
    log: Log,
  ) {
    super('refusals_not_recorded', log);
    this.key = deriveKey(environment.masterKey, 'platform-auth audit account v1');
  }

  /** @throws when the refusal cannot be counted, which fails closed with 503 */
  async recordRefusal(
    { problem, refusal, members, ...count }: CountedRefusal,
    actor: Actor,
  ): Promise<ProblemException> {
    await this.countRefusal({ event: refusal.event, reason: refusal.reason, ...count }, actor);
    return new ProblemException(problem, { refusal, ...(members && { members }) });
  }

  /**
   * One write whether or not the e-mail address has an account, so that the response time does not tell (enumeration).
   */
  async countRefusal(refusal: RefusalToCount, actor: Actor): Promise<void> {
    await this.writeRefusal(this.toDeferred(refusal, actor));
  }

  /**
   * Counts in memory, for routes that write nothing; counts are written every 30 seconds. A room that defers also
   * flushes at the stop, because this module outlives the database connections.
   */
  deferRefusal(refusal: RefusalToCount & { readonly subject: string }, actor: Actor): void {
    this.addRefusal(this.toDeferred(refusal, actor));
  }

  private toDeferred(refusal: RefusalToCount, actor: Actor): DeferredRefusal {
    const now = this.clock.now();
    const addresses = new Map(actor.address === null ? [] : [[actor.address, 1]]);
    return { refusal, actor, firstAt: now, lastAt: now, count: 1, addresses, requestIds: [] };
  }

  /** One refusal a batch, so that one that cannot be written loses no other. */
  protected takeBatches(): [DeferredRefusal][] {
    const waiting = [...this.deferred.values()];
    this.deferred = new Map();
    return waiting.map((refusal): [DeferredRefusal] => [refusal]);
  }

  protected async writeBatch([refusal]: [DeferredRefusal]): Promise<void> {
    await this.writeRefusal(refusal);
  }

  protected putBack(unwritten: readonly [DeferredRefusal][]): void {
    for (const [refusal] of unwritten) this.addRefusal(refusal);
  }

  private addRefusal(added: DeferredRefusal): void {
    const { event, reason, counted } = added.refusal;
    const key = `${event} ${reason} ${counted}`;
    const held = this.deferred.get(key);
    if (held) {
      held.count += added.count;
      if (held.lastAt < added.lastAt) held.lastAt = added.lastAt;
      const { requestId } = added.actor;
      const requestIds = [...added.requestIds, ...(requestId === null ? [] : [requestId]), ...held.requestIds];
      held.requestIds = requestIds.slice(0, MAX_REQUEST_IDS);
      for (const [address, count] of added.addresses) addAddress(held.addresses, address, count);
    } else if (this.deferred.size < MAX_DEFERRED) this.deferred.set(key, added);
  }

  private async writeRefusal(deferred: DeferredRefusal): Promise<void> {
    const { refusal, actor, firstAt, lastAt, count, addresses, requestIds } = deferred;
    const { event, reason, counted, subject } = refusal;
    const { requestId, callerRequestId = null, address } = actor;
    const mac = this.toRowKey(counted, subject);
    const windowStart = new Date(firstAt.getTime() - (firstAt.getTime() % WINDOW_MS));
    const about = subject ?? `unknown:${mac.toString('hex', 0, 16)}`;
    const first = [about, requestId, callerRequestId, address];
    const window = [event, mac, windowStart, createId(), firstAt, lastAt];
    const merged = [Object.fromEntries(addresses), requestIds];
    await this.database.rows(COUNT, [...window, ...first, reason, count, ...merged]);
  }

  private toRowKey(counted: string, subject: string | undefined): Buffer {
    const mac = computeMac(this.key, counted);
    return subject === undefined ? computeMac(this.key, `unknown ${mac.readUInt32BE() % MAX_UNKNOWN_ROWS}`) : mac;
  }

  /** Runs in batches, and safely in several replicas at once. @param now by the clock of PostgreSQL */
  async moveClosedWindows(now: Date): Promise<number> {
    const latestStart = new Date(now.getTime() - WINDOW_MS - CLOCK_TOLERANCE_MS);
    let total = 0;
    for (let moved = BATCH_SIZE; moved === BATCH_SIZE; total += moved) {
      moved = (await this.database.rows(MOVE_CLOSED, [latestStart])).length;
    }
    return total;
  }
}

/** As {@link MERGED_ADDRESSES}. */
function addAddress(counts: Map<string, number>, address: string, count: number): void {
  const rarest = [...counts].reduce<[string, number] | undefined>(
    (least, entry) => (least && least[1] <= entry[1] ? least : entry),
    undefined,
  );
  const isFull = !counts.has(address) && counts.size >= MAX_ADDRESSES;
  if (isFull && rarest) counts.delete(rarest[0]);
  counts.set(address, (counts.get(address) ?? (isFull && rarest ? rarest[1] : 0)) + count);
}

/**
 * Windows stand in `counted_refusals` while they are open, and in `audit_events` afterwards. An open window knows how many
 * refusals came from each of its most frequent addresses. The audit log keeps the names of five, so the refusals are
 * divided among them.
 */
export const REFUSAL_WINDOWS = `(
  SELECT event, subject, time, last_at, count, reasons, address, addresses FROM counted_refusals
  UNION ALL
  SELECT event, subject, time, COALESCE((details ->> 'last_at')::timestamptz, time), count,
    details -> 'reasons', address,
    (SELECT jsonb_object_agg(frequent, count::numeric / jsonb_array_length(details -> 'addresses'))
     FROM jsonb_array_elements_text(details -> 'addresses') AS frequent)
  FROM audit_events)`;

/**
 * Selects the accounts and addresses of windows of wrong passwords and codes, `addresses` as an array in JSON. A window
 * has the time of its first refusal, which is up to 15 minutes earlier than the others.
 */
export function selectFailedAttempts(passwordsSince: string, codesSince: string): string {
  const selectSince = (event: CountedEvent, since: string): string => `
    SELECT subject, time, COALESCE((SELECT jsonb_agg(key) FROM jsonb_each(addresses)), '[]') ||
      COALESCE(to_jsonb(address), '[]') AS addresses
    FROM ${REFUSAL_WINDOWS} AS windows WHERE event = '${event}' AND time >= ${since}`;
  return `${selectSince('user.login.failed', passwordsSince)}
    UNION ALL ${selectSince('user.second_factor.failed', codesSince)}`;
}
