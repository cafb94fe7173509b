/**
 * The audit log: one row of audit_events for each act on users, sessions, nodes, app credentials, operators and signing
 * keys. A row is committed together with its act, or neither is. The log line of the act is written after the commit, so
 * that it never reports what was rolled back. Refused logins, second factors, admin keys and scopes are counted
 * (counted-refusals.ts). Rows are append-only, and sealed (seal.ts).
 */
import { Injectable } from '@nestjs/common';
import {
  DataSource,
  type EntityManager,
  type EntitySubscriberInterface,
  type QueryRunner,
  type TransactionCommitEvent,
} from 'typeorm';
import type { Page } from '../http/page.js';
import { isWarning, type SecurityEvent } from '../common/security-events.js';
import { Database, type Statement } from '../database/database.js';
import type { LogFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';
import { describeAdmin, type Actor } from '../access/actor.js';
import { ActMetrics } from './act-metrics.js';
import { INSERT_AUDIT_EVENT, toAuditValues } from './audit-columns.js';
import type { AuditEvent, StoredAuditEvent } from './audit-event.js';
import { buildAuditQuery, encodeCursor, type AuditFilter } from './audit-query.js';

interface FoundActor {
  readonly actor_door: string;
  readonly operator: string | null;
}

const FIND_ACTOR = `SELECT actor_door, details ->> 'operator' AS operator FROM audit_events
  WHERE subject = $1 AND request_id = $2 ORDER BY time DESC LIMIT 1`;

@Injectable()
export class AuditLog implements EntitySubscriberInterface {
  /** Recorded in transactions that are not committed yet. */
  private readonly pending = new WeakMap<QueryRunner, AuditEvent[]>();

  constructor(
    private readonly dataSource: DataSource,
    private readonly database: Database,
    private readonly serviceLog: Log,
    private readonly metrics: ActMetrics,
  ) {
    dataSource.subscribers.push(this);
  }

  /** Records an act in its transaction, and writes its log line once that is committed. */
  async record(transaction: EntityManager, event: AuditEvent): Promise<void> {
    await transaction.query(INSERT_AUDIT_EVENT, [...toAuditValues(event), event.count ?? 1]);
    this.reportAfterCommit(transaction, event);
  }

  /** Called by TypeORM. */
  afterTransactionCommit({ queryRunner }: TransactionCommitEvent): void {
    for (const event of this.pending.get(queryRunner) ?? []) this.report(event);
    this.pending.delete(queryRunner);
  }

  /**
   * Acts and records in one round trip.
   * @param act made by {@link withAuditEvent}
   * @returns the rows of the act; without any, nothing is recorded
   */
  async execute<Row extends object>(act: Statement, values: unknown[], event: AuditEvent): Promise<Row[]> {
    const rows = await this.database.rows<Row>(act, [...values, ...toAuditValues(event)]);
    if (rows.length > 0) this.report(event);
    return rows;
  }

  /** As {@link AuditLog.execute}, in a transaction. */
  async executeIn<Row extends object>(
    transaction: EntityManager,
    act: Statement,
    values: unknown[],
    event: AuditEvent,
  ): Promise<Row[]> {
    const rows = await transaction.query<Row[]>(act.text, [...values, ...toAuditValues(event)]);
    if (rows.length > 0) this.reportAfterCommit(transaction, event);
    return rows;
  }

  /** Writes only the log line: for events that are not in the audit log, and for acts that changed nothing. */
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

  /**
   * Newest first, including the failed logins and refused admin keys of windows that are still open.
   * @param cursor of the page before
   * @throws {ProblemException} validation_failed for an invalid cursor
   */
  async list(filter: AuditFilter, limit: number, cursor?: string): Promise<Page<StoredAuditEvent>> {
    const { text, values } = buildAuditQuery(filter, limit + 1, cursor);
    const rows = await this.dataSource.query<StoredAuditEvent[]>(text, values);
    const items = rows.slice(0, limit);
    const last = items.at(-1);
    return { items, nextCursor: rows.length > limit && last ? encodeCursor(last) : null };
  }

  /** @returns the actor of what a request did to a subject: a door, or `operator:<name>`; null when it is not on record */
  async findActor(subject: string, requestId: string): Promise<string | null> {
    const [found] = await this.dataSource.query<FoundActor[]>(FIND_ACTOR, [subject, requestId]);
    if (!found) return null;
    return found.actor_door === 'admin' ? describeAdmin(found.operator) : found.actor_door;
  }

  private reportAfterCommit({ queryRunner }: EntityManager, event: AuditEvent): void {
    if (!queryRunner) throw new Error('An audit event needs a transaction');
    this.pending.set(queryRunner, [...(this.pending.get(queryRunner) ?? []), event]);
  }

  private report({ event, actor, logFields }: AuditEvent): void {
    this.metrics.count(event);
    if (logFields) this.logOnly(event, actor, logFields);
  }
}
