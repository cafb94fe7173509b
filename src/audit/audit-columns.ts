import { createId } from '../common/ids.js';
import type { Statement } from '../database/database.js';
import type { AuditEvent, StoredAuditEvent } from './audit-event.js';

/** The columns of audit_events that the service writes, with their types. The database fills in the others. */
const COLUMN_TYPES = {
  id: 'uuid',
  time: 'timestamptz',
  event: 'text',
  actor_door: 'text',
  actor_id: 'text',
  subject: 'text',
  request_id: 'text',
  address: 'text',
  details: 'jsonb',
  count: 'integer',
} as const satisfies Record<keyof StoredAuditEvent, string>;

type Column = keyof typeof COLUMN_TYPES;
/** An SQL expression for each column. */
export type ColumnExpressions = Readonly<Record<Column, string>>;

const COLUMNS = Object.keys(COLUMN_TYPES) as Column[];
export const AUDIT_COLUMNS = COLUMNS.join(', ');

/** @returns `SELECT …`, to be continued with FROM */
export function selectAuditEvents(expressions: ColumnExpressions): string {
  return `SELECT ${COLUMNS.map((column) => `${expressions[column]} AS ${column}`).join(', ')}`;
}

/** @returns `INSERT INTO audit_events … SELECT …`, to be continued with FROM */
export function insertAuditEvents(expressions: ColumnExpressions): string {
  return `INSERT INTO audit_events (${AUDIT_COLUMNS}) ${selectAuditEvents(expressions)}`;
}

/** The columns that {@link toAuditValues} has values for. The number of rows of the act is its `count`. */
const PARAMETER_COLUMNS = COLUMNS.filter((column) => column !== 'count');

function auditParameters(offset: number, count: string): ColumnExpressions {
  const parameters = PARAMETER_COLUMNS.map((column, index) => [
    column,
    `$${offset + index + 1}::${COLUMN_TYPES[column]}`,
  ]);
  return { ...Object.fromEntries(parameters), count } as ColumnExpressions;
}

export const INSERT_AUDIT_EVENT = insertAuditEvents(auditParameters(0, `$${PARAMETER_COLUMNS.length + 1}::integer`));

/**
 * A statement that also inserts its audit event: both are committed or neither, in one round trip. It takes the
 * parameters of the act, and then {@link toAuditValues}. One row is inserted however many rows the act returns, and none
 * when it returns none.
 * @param act an INSERT, UPDATE or DELETE with RETURNING
 * @param details SQL for more details, made of the rows of `act`
 */
export function withAuditEvent(act: Statement, details?: string): Statement {
  const actParameters = Math.max(...Array.from(act.text.matchAll(/\$(\d+)/g), ([, number]) => Number(number)));
  const parameters = auditParameters(actParameters, 'count(*)');
  const expressions =
    details === undefined ? parameters : { ...parameters, details: `${parameters.details} || ${details}` };
  return {
    name: act.name,
    text: `WITH act AS (${act.text}),
                recorded AS (${insertAuditEvents(expressions)} FROM act HAVING count(*) > 0)
           SELECT * FROM act`,
  };
}

/** Without `count`. */
export function toAuditValues({ event, actor, time, subject, details = {} }: AuditEvent): unknown[] {
  const { door, id, operator, requestId, callerRequestId, address } = actor;
  const allDetails = {
    ...details,
    ...(callerRequestId !== undefined && { caller_request_id: callerRequestId }),
    // Not a column: rows that were sealed before keep their text, and those of another version too.
    ...(operator !== undefined && { operator }),
  };
  const values: Record<Exclude<Column, 'count'>, unknown> = {
    id: createId(),
    time,
    event,
    actor_door: door,
    actor_id: id,
    subject,
    request_id: requestId,
    address,
    details: JSON.stringify(allDetails),
  };
  return PARAMETER_COLUMNS.map((column) => values[column]);
}
