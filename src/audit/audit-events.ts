import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { isId } from '../common/ids.js';
import { createCursorProblem, type Page } from '../common/page.js';
import type { AuditedEvent } from './audit-entry.js';
import { OPEN_WINDOWS } from './counted-refusals.js';

/** A row of the record; columns are named as in the database. */
export interface AuditRow {
  readonly id: string;
  readonly time: Date;
  readonly event: string;
  readonly actor_door: string;
  readonly actor_id: string | null;
  readonly subject: string | null;
  readonly request_id: string | null;
  readonly address: string | null;
  readonly count: number;
  readonly details: Record<string, unknown>;
}

export interface AuditFilter {
  /** The id of whoever did it, or the door of those who have none. */
  readonly actor: string | undefined;
  readonly subject: string | undefined;
  readonly event: AuditedEvent | undefined;
  /** The first moment of interest. */
  readonly since: Date | undefined;
  /** The first moment that is of none any more. */
  readonly until: Date | undefined;
}

interface Position {
  readonly time: Date;
  readonly id: string;
}

/** Reads the record. */
@Injectable()
export class AuditEvents {
  constructor(private readonly dataSource: DataSource) {}

  /**
   * Newest first, with the failed logins and refused admin keys that are still being counted.
   * @param cursor of the page before
   * @throws {ProblemException} validation_failed for a cursor that no page handed out
   */
  async list(filter: AuditFilter, limit: number, cursor?: string): Promise<Page<AuditRow>> {
    const { where, values } = conditions(filter, cursor === undefined ? undefined : positionOf(cursor));
    const newest = `${where} ORDER BY time DESC, id DESC LIMIT ${limit + 1}`;
    const rows = await this.dataSource.query<AuditRow[]>(
      `(SELECT id, time, event, actor_door, actor_id, subject, request_id, address, count, details
        FROM audit_events ${newest})
       UNION ALL
       (SELECT * FROM (${OPEN_WINDOWS}) AS still_counted ${newest})
       ORDER BY time DESC, id DESC LIMIT ${limit + 1}`,
      values,
    );
    const items = rows.slice(0, limit);
    const last = items.at(-1);
    return { items, nextCursor: rows.length > limit && last ? cursorOf(last) : null };
  }
}

function conditions({ actor, subject, event, since, until }: AuditFilter, after: Position | undefined) {
  const values: unknown[] = [];
  const given: string[] = [];
  const add = (condition: (...names: string[]) => string, ...added: unknown[]): void => {
    if (added[0] === undefined) return;
    given.push(condition(...added.map((value) => `$${values.push(value)}`)));
  };
  const byActor =
    actor === undefined || isId(actor)
      ? (name: string) => `actor_id = ${name}`
      : (name: string) => `actor_door = ${name} AND actor_id IS NULL`;
  add(byActor, actor);
  add((name) => `subject = ${name}`, subject);
  add((name) => `event = ${name}`, event);
  add((name) => `time >= ${name}`, since);
  add((name) => `time < ${name}`, until);
  // The first condition lets the later months be skipped, which a comparison of pairs does not.
  add((time, id) => `time <= ${time} AND (time, id) < (${time}, ${id})`, after?.time, after?.id);
  return { where: given.length > 0 ? `WHERE ${given.join(' AND ')}` : '', values };
}

function cursorOf({ time, id }: Position): string {
  return Buffer.from(`${time.getTime()} ${id}`).toString('base64url');
}

function positionOf(cursor: unknown): Position {
  const text = typeof cursor === 'string' ? Buffer.from(cursor, 'base64url').toString('latin1') : '';
  const [, milliseconds, id = ''] = /^(\d{1,15}) (\S+)$/.exec(text) ?? [];
  if (milliseconds !== undefined && isId(id)) return { time: new Date(Number(milliseconds)), id };
  throw createCursorProblem();
}
