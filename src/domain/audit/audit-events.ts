/**
 * The events of the audit log, the columns of its table, and the statements that write them. An act that is a single
 * statement by hand is recorded by that statement ({@link withAuditEvent}), any other act by INSERT_AUDIT_EVENT in its
 * transaction.
 */
import type { Actor } from '../../foundation/access/actor.js';
import { createId } from '../../foundation/common/ids.js';
import { redactSecrets } from '../../foundation/common/redaction.js';
import type { AuditEventName } from '../../foundation/common/security-events.js';
import type { Statement } from '../../foundation/database/database.js';
import type { LogFields } from '../../foundation/logging/log.js';

export interface AuditEvent {
  readonly event: AuditEventName;
  readonly actor: Actor;
  readonly time?: Date;
  /**
   * Id of a user, household, node, app credential, operator, enrolment, signing key, or run of an import or export; name
   * of a service or of a finding; `admin` for the root key.
   */
  readonly subject: string;
  /** Further facts, such as the values before and after. Never a secret, a digest or an e-mail address. */
  readonly details?: Readonly<Record<string, unknown>>;
  readonly count?: number;
  /** Fields of the log line in addition to those of the request. Undefined: no line is written. */
  readonly logFields?: LogFields;
}

/** An act on the account of a user, whom the log line names too. */
export function toUserEvent(
  event: AuditEventName,
  actor: Actor,
  userId: string,
  { logFields, ...rest }: Pick<AuditEvent, 'time' | 'details' | 'count' | 'logFields'> = {},
): AuditEvent {
  return { event, actor, subject: userId, ...rest, logFields: { user_id: userId, ...logFields } };
}

export interface StoredAuditEvent {
  readonly id: string;
  readonly time: Date;
  readonly event: string;
  readonly actor_door: string;
  readonly actor_id: string | null;
  readonly subject: string | null;
  readonly request_id: string | null;
  readonly address: string | null;
  readonly details: Record<string, unknown>;
  readonly count: number;
}

/** The columns that the service writes; PostgreSQL sets the others (epoch, xid, recorded_at). */
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
export type ColumnExpressions = Readonly<Record<Column, string>>;

const COLUMNS = Object.keys(COLUMN_TYPES) as Column[];
export const AUDIT_COLUMNS = COLUMNS.join(', ');

export function selectAuditEvents(expressions: ColumnExpressions): string {
  return `SELECT ${COLUMNS.map((column) => `${expressions[column]} AS ${column}`).join(', ')}`;
}

/** @returns `INSERT INTO audit_events … SELECT …`, to be continued with FROM */
export function insertAuditEvents(expressions: ColumnExpressions): string {
  return `INSERT INTO audit_events (${AUDIT_COLUMNS}) ${selectAuditEvents(expressions)}`;
}

const PARAMETER_COLUMNS = COLUMNS.filter((column) => column !== 'count');

function buildAuditParameters(offset: number, count: string): ColumnExpressions {
  const parameters = PARAMETER_COLUMNS.map((column, index) => [
    column,
    `$${offset + index + 1}::${COLUMN_TYPES[column]}`,
  ]);
  return { ...Object.fromEntries(parameters), count } as ColumnExpressions;
}

export const INSERT_AUDIT_EVENT = insertAuditEvents(
  buildAuditParameters(0, `$${PARAMETER_COLUMNS.length + 1}::integer`),
);

/**
 * Adds the insertion of an audit event to a statement, so that one round trip commits both or neither; an act that
 * returns no row inserts no event.
 * The parameters of the act come first, then {@link toAuditValues}.
 * @param act an INSERT, UPDATE or DELETE with RETURNING
 * @param details SQL over the rows of `act` for further details
 */
export function withAuditEvent(act: Statement, details?: string): Statement {
  const actParameters = Math.max(...Array.from(act.text.matchAll(/\$(\d+)/g), ([, number]) => Number(number)));
  const parameters = buildAuditParameters(actParameters, 'count(*)');
  const expressions =
    details === undefined ? parameters : { ...parameters, details: `${parameters.details} || ${details}` };
  return {
    name: act.name,
    text: `WITH act AS (${act.text}),
                recorded AS (${insertAuditEvents(expressions)} FROM act HAVING count(*) > 0)
           SELECT * FROM act`,
  };
}

export function toAuditValues({ event, actor, time, subject, details = {} }: AuditEvent, now: Date): unknown[] {
  const { door, id, operator, requestId, callerRequestId, address } = actor;
  const allDetails = {
    ...details,
    ...(callerRequestId !== undefined && { caller_request_id: callerRequestId }),
    ...(operator !== undefined && { operator }),
  };
  const values: Record<Exclude<Column, 'count'>, unknown> = {
    id: createId(),
    time: time ?? now,
    event,
    actor_door: door,
    actor_id: id,
    subject,
    request_id: requestId,
    address,
    details: redactSecrets(JSON.stringify(allDetails)),
  };
  return PARAMETER_COLUMNS.map((column) => values[column]);
}
