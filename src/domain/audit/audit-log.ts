/**
 * The audit log: one row of audit_events for each act that AUDIT_EVENT_NAMES lists, committed with the act or not at all.
 * The log line and the metric follow the commit, so that neither reports what was rolled back. The refusals of
 * COUNTED_EVENTS are counted instead (counted-refusals.ts). Rows are append-only, and sealed (seals/).
 */
import { isDeepStrictEqual } from 'node:util';
import { Injectable } from '@nestjs/common';
import { Counter } from 'prom-client';
import {
  DataSource,
  type EntityManager,
  type EntitySubscriberInterface,
  type QueryRunner,
  type TransactionCommitEvent,
} from 'typeorm';
import { describeAdmin, type Actor } from '../../foundation/access/actor.js';
import { isId } from '../../foundation/common/ids.js';
import {
  isWarning,
  type SecurityEvent,
  AUDIT_EVENT_NAMES,
  type AuditEventName,
} from '../../foundation/common/security-events.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { Database, type Statement } from '../../foundation/database/database.js';
import { createCursorProblem } from '../../foundation/http/page.dto.js';
import { type LogFields, Log } from '../../foundation/logging/log.js';
import { MetricsRegistry, PREFIX } from '../../foundation/metrics/metrics-registry.js';
import {
  AUDIT_COLUMNS,
  INSERT_AUDIT_EVENT,
  toAuditValues,
  type AuditEvent,
  type StoredAuditEvent,
} from './audit-events.js';
import { COUNTED_EVENTS, OPEN_WINDOWS } from './counted-refusals.js';
import type { Page } from '../../foundation/database/page.js';

export interface AuditFilter {
  /** Id of the actor, or the door of an actor without an id. */
  readonly actor: string | undefined;
  /** Name of an operator, revoked or purged too, in place of `actor`. */
  readonly operator: string | undefined;
  readonly subject: string | undefined;
  readonly requestId: string | undefined;
  readonly address: string | undefined;
  readonly events: readonly AuditEventName[] | undefined;
  /** First moment that is included. */
  readonly since: Date | undefined;
  /** First moment that is excluded. */
  readonly until: Date | undefined;
}

type Position = Pick<StoredAuditEvent, 'time' | 'id'>;

const FIND_ACTOR = `SELECT actor_door, details ->> 'operator' AS operator FROM audit_events
  WHERE subject = $1 AND request_id = $2 ORDER BY time DESC LIMIT 1`;

@Injectable()
export class AuditLog implements EntitySubscriberInterface {
  private readonly pending = new WeakMap<QueryRunner, AuditEvent[]>();
  private readonly actions;

  constructor(
    private readonly dataSource: DataSource,
    private readonly database: Database,
    private readonly serviceLog: Log,
    private readonly clock: ComparedClock,
    { registry }: MetricsRegistry,
  ) {
    dataSource.subscribers.push(this);
    this.actions = new Counter({
      name: `${PREFIX}actions_total`,
      help: 'Committed actions, by the name of their audit event.',
      labelNames: ['event'],
      registers: [registry],
    });
    // Starts each series at 0: one that begins at 1 has no increase, so alerts would miss the first act of its kind.
    for (const event of AUDIT_EVENT_NAMES) if (isCountedAction(event)) this.actions.inc({ event }, 0);
  }

  /** @param hasEffect false for an act that changed nothing, which gets a log line only */
  async record(transaction: EntityManager, event: AuditEvent, hasEffect = true): Promise<void> {
    if (!hasEffect) {
      this.logOnly(event.event, event.actor, event.logFields ?? {});
      return;
    }
    await transaction.query(INSERT_AUDIT_EVENT, [...toAuditValues(event, this.clock.now()), event.count ?? 1]);
    this.reportAfterCommit(transaction, event);
  }

  /** Records a change with the fields before and after it. @returns whether anything changed */
  async recordChange(transaction: EntityManager, event: AuditEvent, before: object, after: object): Promise<boolean> {
    const hasEffect = !isDeepStrictEqual(before, after);
    await this.record(transaction, { ...event, details: { before, after } }, hasEffect);
    return hasEffect;
  }

  afterTransactionCommit({ queryRunner }: TransactionCommitEvent): void {
    for (const event of this.pending.get(queryRunner) ?? []) this.report(event);
    this.pending.delete(queryRunner);
  }

  /** @param act a statement of {@link withAuditEvent}; when it returns no row, nothing is recorded */
  async execute<Row extends object>(
    act: Statement,
    actValues: unknown[],
    event: AuditEvent,
    transaction?: EntityManager,
  ): Promise<Row[]> {
    const values = [...actValues, ...toAuditValues(event, this.clock.now())];
    const rows = await (transaction?.query<Row[]>(act.text, values) ?? this.database.rows<Row>(act, values));
    if (rows.length === 0) return rows;
    if (transaction) this.reportAfterCommit(transaction, event);
    else this.report(event);
    return rows;
  }

  /** Logs an event that is not in the audit log, or an act that changed nothing. */
  logOnly(event: SecurityEvent, { operator, requestId, callerRequestId, address }: Actor, fields: LogFields): void {
    const line = {
      event,
      request_id: requestId ?? undefined,
      caller_request_id: callerRequestId,
      address: address ?? undefined,
      operator,
      ...fields,
    };
    if (isWarning(event)) this.serviceLog.warn(event, line);
    else this.serviceLog.info(event, line);
  }

  /** Lists events, newest first, including open windows of counted refusals. */
  async listEvents(filter: AuditFilter, limit: number, cursor?: string | null): Promise<Page<StoredAuditEvent>> {
    const { text, values } = buildQuery(filter, limit + 1, cursor == null ? undefined : decodeCursor(cursor));
    const rows = await this.dataSource.query<StoredAuditEvent[]>(text, values);
    const items = rows.slice(0, limit);
    const last = items.at(-1);
    return { items, nextCursor: rows.length > limit && last ? encodeCursor(last) : null };
  }

  /** @returns the actor of a request on a subject: a door, or `operator:<name>`; null when the audit log has none */
  async findActor(subject: string, requestId: string): Promise<string | null> {
    const [found] = await this.dataSource.query<{ actor_door: string; operator: string | null }[]>(FIND_ACTOR, [
      subject,
      requestId,
    ]);
    if (!found) return null;
    return found.actor_door === 'admin' ? describeAdmin(found.operator) : found.actor_door;
  }

  private reportAfterCommit({ queryRunner }: EntityManager, event: AuditEvent): void {
    if (!queryRunner) throw new Error('An audit event needs a transaction');
    this.pending.set(queryRunner, [...(this.pending.get(queryRunner) ?? []), event]);
  }

  private report({ event, actor, logFields }: AuditEvent): void {
    this.actions.inc({ event });
    if (logFields) this.logOnly(event, actor, logFields);
  }
}

/** Excludes refusals, which have metrics of their own, and events of the command line and of batches. */
function isCountedAction(event: AuditEventName): boolean {
  const isRefusal = (COUNTED_EVENTS as readonly AuditEventName[]).includes(event);
  return !isRefusal && !/^(signing_key|users|audit)\.|\.first_used$/.test(event);
}

function buildQuery(filter: AuditFilter, limit: number, after: Position | undefined) {
  const { where, values } = toConditions(filter, after);
  const newest = `${where} ORDER BY time DESC, id DESC LIMIT ${limit}`;
  const text = `(SELECT ${AUDIT_COLUMNS} FROM audit_events ${newest})
    UNION ALL (SELECT ${AUDIT_COLUMNS} FROM (${OPEN_WINDOWS}) AS open_windows ${newest})
    ORDER BY time DESC, id DESC LIMIT ${limit}`;
  return { text, values };
}

function toConditions(filter: AuditFilter, after: Position | undefined) {
  const { actor, operator, subject, requestId, address, events, since, until } = filter;
  const values: unknown[] = [];
  const conditions: string[] = [];
  const add = (condition: (...names: string[]) => string, ...added: unknown[]): void => {
    if (added[0] === undefined) return;
    conditions.push(condition(...added.map((value) => `$${values.push(value)}`)));
  };
  const byActor =
    actor === undefined || isId(actor)
      ? (name: string) => `actor_id = ${name}`
      : (name: string) => `actor_door = ${name} AND actor_id IS NULL`;
  add(byActor, actor);
  // By the name in the row: the row of a revoked operator may be purged before those of its acts.
  add((name) => `actor_door = 'admin' AND details ->> 'operator' = ${name}`, operator);
  add((name) => `subject = ${name}`, subject);
  add((name) => `(request_id = ${name} OR details -> 'request_ids' ? ${name})`, requestId);
  add((name) => `(address = ${name} OR details -> 'addresses' ? ${name})`, address);
  add((name) => `event = ANY(${name})`, events);
  add((name) => `time >= ${name}`, since);
  add((name) => `time < ${name}`, until);
  // The first condition prunes the partitions of later months; a comparison of pairs does not.
  add((time, id) => `time <= ${time} AND (time, id) < (${time}, ${id})`, after?.time, after?.id);
  return { where: conditions.length > 0 ? `WHERE ${conditions.join(' AND ')}` : '', values };
}

function encodeCursor({ time, id }: Position): string {
  return Buffer.from(`${time.getTime()} ${id}`).toString('base64url');
}

function decodeCursor(cursor: string): Position {
  const text = Buffer.from(cursor, 'base64url').toString('latin1');
  const [, milliseconds, id = ''] = /^(\d{1,15}) (\S+)$/.exec(text) ?? [];
  if (milliseconds !== undefined && isId(id)) return { time: new Date(Number(milliseconds)), id };
  throw createCursorProblem();
}
