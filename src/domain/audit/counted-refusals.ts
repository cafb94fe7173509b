import { Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { Clock } from '../../foundation/common/clock.js';
import { createId } from '../../foundation/common/ids.js';
import { Environment } from '../../foundation/config/environment.js';
import { deriveKey, computeMac } from '../../foundation/crypto/secret.js';
import { Database } from '../../foundation/database/database.js';
import { DeferredWrites } from './deferred-writes.js';
import { Log } from '../../foundation/logging/log.js';
import type { Actor } from '../../foundation/access/actor.js';
import { ProblemException, type RefusalEvent, type Problem } from '../../foundation/problems/problems.js';
import { insertAuditEvents, selectAuditEvents, type ColumnExpressions } from './audit-events.js';

export const WINDOW_MS = 15 * 60_000;
/**
 * A window that has ended may still be counted in: by a replica whose clock is behind, by a refusal that waits to be flushed,
 * and by a statement that PostgreSQL has not finished.
 */
const CLOCK_TOLERANCE_MS = 60_000;
const BATCH_SIZE = 1_000;
/** Bounds the memory, and the rows that one replica writes. Refusals beyond it are in the log alone. */
const MAX_DEFERRED = 1_000;
/** Refusals without an account share this many rows a window, so that random addresses do not fill the disk. */
const MAX_UNKNOWN_ROWS = 256;

/** The table of open windows of each counted event. */
const TABLES = {
  'user.login.failed': 'failed_logins',
  'user.second_factor.failed': 'failed_second_factors',
  'admin.key.refused': 'refused_admin_keys',
  'admin.scope.refused': 'refused_admin_scopes',
  // It has every reason. The name, from when only wrong targets were counted, stays: databases with that table are in use.
  'node.validation.failed': 'refused_node_targets',
  'app.validation.failed': 'refused_app_keys',
} as const;
export type CountedEvent = keyof typeof TABLES;
export const COUNTED_EVENTS = Object.keys(TABLES) as CountedEvent[];

const buildCountStatement = (table: string) => ({
  name: `${table}_count`,
  text: `INSERT INTO ${table} AS counted
           (account, window_start, id, time, last_at, subject, request_id, caller_request_id, address, count, reasons)
         VALUES ($1, $2, $3, $4, $10, $5, $6, $9, $7, $11, jsonb_build_object($8::text, $11::int))
         ON CONFLICT (account, window_start) DO UPDATE
         SET count = counted.count + $11, last_at = GREATEST(counted.last_at, excluded.last_at),
             reasons = counted.reasons || jsonb_build_object($8::text, COALESCE((counted.reasons ->> $8)::int, 0) + $11)`,
});

const toActorExpressions = (event: CountedEvent) => {
  switch (event) {
    case 'admin.scope.refused':
      return {
        actor_door: `'admin'`,
        actor_id: 'subject',
        // Read when the row is shown or moved: it never changes, and its row is never deleted.
        name: '(SELECT name FROM operators WHERE operators.id::text = subject)',
      };
    case 'node.validation.failed': {
      // Only a right key proves the node: any client may send another key with its id.
      const isProven = `reasons - 'target' = '{}'`;
      return {
        actor_door: `CASE WHEN ${isProven} THEN 'node' ELSE 'open' END`,
        actor_id: `CASE WHEN ${isProven} THEN subject END`,
        name: 'NULL::text',
      };
    }
    default:
      return { actor_door: `'open'`, actor_id: 'NULL::text', name: 'NULL::text' };
  }
};

/** A window as a row of audit_events. */
const toExpressions = (event: CountedEvent): ColumnExpressions => {
  const { name, ...actor } = toActorExpressions(event);
  return {
    id: 'id',
    time: 'time',
    event: `'${event}'`,
    ...actor,
    subject: 'subject',
    request_id: 'request_id',
    address: 'address',
    details: `jsonb_strip_nulls(jsonb_build_object('reasons', reasons,
    'last_at', to_char(last_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    'caller_request_id', caller_request_id, 'operator', ${name}))`,
    count: 'count',
  };
};

export const OPEN_WINDOWS = COUNTED_EVENTS.map(
  (event) => `${selectAuditEvents(toExpressions(event))} FROM ${TABLES[event]}`,
).join(' UNION ALL ');

/**
 * Selects the wrong passwords and codes of accounts since two moments, and the address of the first one in each window. A
 * window is found by the time of its first refusal: up to {@link WINDOW_MS} before the others.
 */
export function selectFailedAttempts(passwordsSince: string, codesSince: string): string {
  const selectSince = (event: CountedEvent, since: string): string =>
    `SELECT subject, address FROM ${TABLES[event]} WHERE time >= ${since}
     UNION ALL SELECT subject, address FROM audit_events WHERE event = '${event}' AND time >= ${since}`;
  return [selectSince('user.login.failed', passwordsSince), selectSince('user.second_factor.failed', codesSince)].join(
    ' UNION ALL ',
  );
}

const buildMoveStatement = (event: CountedEvent) => ({
  name: `${TABLES[event]}_move_closed`,
  text: `WITH closed AS (
           DELETE FROM ${TABLES[event]} WHERE (account, window_start) IN
             (SELECT account, window_start FROM ${TABLES[event]}
              WHERE window_start <= $1 LIMIT ${BATCH_SIZE} FOR UPDATE SKIP LOCKED)
           RETURNING *)
         ${insertAuditEvents(toExpressions(event))} FROM closed RETURNING id`,
});

interface Count {
  /** The key of the count: a canonical e-mail address, the id of a user or of an operator, or a network. */
  readonly counted: string;
  /** Undefined when no account is known. */
  readonly subject?: string | undefined;
}

interface RefusalToCount extends Count {
  readonly event: CountedEvent;
  readonly reason: string;
}

/** Refusals of one subject that are not written yet. */
interface DeferredRefusal {
  readonly refusal: RefusalToCount;
  readonly actor: Actor;
  readonly firstAt: Date;
  lastAt: Date;
  count: number;
}

export interface CountedRefusal extends Count {
  readonly problem: Problem;
  readonly refusal: Extract<RefusalEvent, { event: CountedEvent }>;
  readonly members?: object;
}

/**
 * Counts failed logins, failed second factors, refused admin keys and scopes, and refused keys of apps and
 * nodes: one row for each account, network, operator, app credential or node, and window of 15 minutes, across all replicas;
 * addresses without an account share rows. The row has the request ids and network address of the first refusal.
 */
@Injectable()
export class CountedRefusals extends DeferredWrites<[DeferredRefusal]> implements OnModuleInit, OnApplicationShutdown {
  private readonly key;
  private deferred = new Map<string, DeferredRefusal>();

  constructor(
    environment: Environment,
    private readonly database: Database,
    private readonly clock: Clock,
    log: Log,
  ) {
    super('refusals_not_recorded', log);
    this.key = deriveKey(environment.secretKey, 'platform-auth audit account v1');
  }

  onModuleInit(): void {
    this.start();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.stop();
  }

  /** @throws when the refusal cannot be counted: fails closed with 503 */
  async recordRefusal(
    { problem, refusal, members, ...count }: CountedRefusal,
    actor: Actor,
  ): Promise<ProblemException> {
    await this.countRefusal({ event: refusal.event, reason: refusal.reason, ...count }, actor);
    return new ProblemException(problem, { refusal, ...(members && { members }) });
  }

  /** One write, whether or not the e-mail address has an account: no enumeration by response time. */
  async countRefusal(refusal: RefusalToCount, actor: Actor): Promise<void> {
    const now = this.clock.now();
    await this.write({ refusal, actor, firstAt: now, lastAt: now, count: 1 });
  }

  /**
   * Counts in memory, for refusals by a route that writes nothing. They are written every 30 seconds; a room that defers also
   * flushes when the service stops, because this module outlives the connections to the database.
   */
  deferRefusal(refusal: RefusalToCount & { readonly subject: string }, actor: Actor): void {
    const now = this.clock.now();
    this.add({ refusal, actor, firstAt: now, lastAt: now, count: 1 });
  }

  /** One refusal a batch: one that cannot be written loses no other. */
  protected takeBatches(): [DeferredRefusal][] {
    const waiting = [...this.deferred.values()];
    this.deferred = new Map();
    return waiting.map((refusal): [DeferredRefusal] => [refusal]);
  }

  protected async writeBatch([refusal]: [DeferredRefusal]): Promise<void> {
    await this.write(refusal);
  }

  protected putBack(unwritten: readonly [DeferredRefusal][]): void {
    for (const [refusal] of unwritten) this.add(refusal);
  }

  private add(added: DeferredRefusal): void {
    const { event, reason, counted } = added.refusal;
    const key = `${event} ${reason} ${counted}`;
    const held = this.deferred.get(key);
    if (held) {
      held.count += added.count;
      if (held.lastAt < added.lastAt) held.lastAt = added.lastAt;
    } else if (this.deferred.size < MAX_DEFERRED) this.deferred.set(key, added);
  }

  private async write({ refusal, actor, firstAt, lastAt, count }: DeferredRefusal): Promise<void> {
    const { event, reason, counted, subject } = refusal;
    const { requestId, callerRequestId = null, address } = actor;
    const account = this.toRowKey(counted, subject);
    const windowStart = new Date(firstAt.getTime() - (firstAt.getTime() % WINDOW_MS));
    const about = subject ?? `unknown:${account.toString('hex', 0, 16)}`;
    const first = [createId(), firstAt, about, requestId, address, reason, callerRequestId];
    const values = [account, windowStart, ...first, lastAt, count];
    await this.database.rows(buildCountStatement(TABLES[event]), values);
  }

  private toRowKey(counted: string, subject: string | undefined): Buffer {
    const mac = computeMac(this.key, counted);
    return subject === undefined ? computeMac(this.key, `unknown ${mac.readUInt32BE() % MAX_UNKNOWN_ROWS}`) : mac;
  }

  /** Runs in batches, and safely in several replicas at once. @param now by the clock of PostgreSQL */
  async moveClosedWindows(now: Date): Promise<number> {
    const latestStart = new Date(now.getTime() - WINDOW_MS - CLOCK_TOLERANCE_MS);
    let total = 0;
    for (const event of COUNTED_EVENTS) {
      for (let moved = BATCH_SIZE; moved === BATCH_SIZE; total += moved) {
        moved = (await this.database.rows(buildMoveStatement(event), [latestStart])).length;
      }
    }
    return total;
  }
}
