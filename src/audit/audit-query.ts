import { isId } from '../common/ids.js';
import { createCursorProblem } from '../http/page.js';
import { AUDIT_COLUMNS } from './audit-columns.js';
import type { AuditEventName, StoredAuditEvent } from './audit-event.js';
import { OPEN_WINDOWS } from './counted-refusals.js';

export interface AuditFilter {
  /** The id of the actor, or the door of an actor without an id. */
  readonly actor: string | undefined;
  /** The ids of operators, in place of `actor`. */
  readonly operators?: readonly string[] | undefined;
  readonly subject: string | undefined;
  readonly event: AuditEventName | undefined;
  /** Inclusive. */
  readonly since: Date | undefined;
  /** Exclusive. */
  readonly until: Date | undefined;
}

type Position = Pick<StoredAuditEvent, 'time' | 'id'>;

/**
 * Newest first, including the open windows of counted refusals.
 * @param cursor of the page before
 * @throws {ProblemException} validation_failed for a cursor that is not from {@link encodeCursor}
 */
export function buildAuditQuery(filter: AuditFilter, limit: number, cursor?: string) {
  const { where, values } = toConditions(filter, cursor === undefined ? undefined : decodeCursor(cursor));
  const newest = `${where} ORDER BY time DESC, id DESC LIMIT ${limit}`;
  const text = `(SELECT ${AUDIT_COLUMNS} FROM audit_events ${newest})
    UNION ALL (SELECT ${AUDIT_COLUMNS} FROM (${OPEN_WINDOWS}) AS open_windows ${newest})
    ORDER BY time DESC, id DESC LIMIT ${limit}`;
  return { text, values };
}

function toConditions({ actor, operators, subject, event, since, until }: AuditFilter, after: Position | undefined) {
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
  add((name) => `actor_id = ANY(${name})`, operators);
  add((name) => `subject = ${name}`, subject);
  add((name) => `event = ${name}`, event);
  add((name) => `time >= ${name}`, since);
  add((name) => `time < ${name}`, until);
  // The first condition prunes the partitions of later months, which a comparison of pairs does not.
  add((time, id) => `time <= ${time} AND (time, id) < (${time}, ${id})`, after?.time, after?.id);
  return { where: conditions.length > 0 ? `WHERE ${conditions.join(' AND ')}` : '', values };
}

export function encodeCursor({ time, id }: Position): string {
  return Buffer.from(`${time.getTime()} ${id}`).toString('base64url');
}

function decodeCursor(cursor: unknown): Position {
  const text = typeof cursor === 'string' ? Buffer.from(cursor, 'base64url').toString('latin1') : '';
  const [, milliseconds, id = ''] = /^(\d{1,15}) (\S+)$/.exec(text) ?? [];
  if (milliseconds !== undefined && isId(id)) return { time: new Date(Number(milliseconds)), id };
  throw createCursorProblem();
}
