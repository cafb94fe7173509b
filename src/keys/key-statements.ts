import { insertAuditEvents, withAuditEvent, type AuditEvent, type AuditEventName } from '../audit/audit-events.js';
import { type Statement, ANY_GIVEN_ID } from '../database/database.js';
import type { LogFields } from '../logging/log-line.js';
import type { KeyColumns } from './key-columns.js';

/** A table with the columns of KeyColumns. Its fields are constants in the code, never input: they become SQL. */
export interface KeyTable<Entity extends KeyColumns = KeyColumns> {
  readonly name: 'nodes' | 'app_credentials';
  /** The door at which its keys are presented. */
  readonly door: 'node' | 'app';
  /** The prefix of the audit events of operators' acts. */
  readonly auditPrefix: 'admin.node' | 'admin.app_credential';
  /** The columns that the principal is made of. */
  readonly identityColumns: readonly string[];
  /** The column of the only service that its keys may be used for; absent: any. */
  readonly targetColumn?: string;
  /** Lets secret scanners recognise a leaked key. */
  readonly keyPrefix: string;
  /** The log fields of what operators do to a key. */
  toLogFields(row: Entity): LogFields;
}

export interface KeyStatements {
  readonly read: Statement;
  readonly rotate: Statement;
  readonly revoke: Statement;
  readonly recordUses: Statement;
  /** Not prepared: it runs a few times per hour. */
  readonly purge: string;
}

export function buildKeyStatements({ name, door, identityColumns, targetColumn }: KeyTable): KeyStatements {
  const statement = (verb: string, text: string): Statement => ({ name: `${name}_${verb}`, text });
  return {
    read: statement(
      'read',
      `SELECT id, ${identityColumns.join(', ')}, key_digest, previous_key_digest, previous_key_expires_at, expires_at, revoked_at
       FROM ${name} WHERE id = ${ANY_GIVEN_ID}`,
    ),
    rotate: withAuditEvent(
      statement('rotate', buildRotation(name)),
      `(SELECT jsonb_build_object('before',
          jsonb_build_object('rotated_at', rotated, 'previous_key_expires_at', overlap)) FROM act)`,
    ),
    revoke: withAuditEvent(
      statement(
        'revoke',
        `UPDATE ${name} SET revoked_at = $2, updated_at = $2, revoked_by_request = $3
         WHERE id = $1 AND revoked_at IS NULL RETURNING id`,
      ),
    ),
    recordUses: buildRecordUses({
      name,
      door,
      event: `${door}.first_used`,
      details: `jsonb_strip_nulls(jsonb_build_object('called_service', last_used_for))`,
      ...(targetColumn && { targetColumn }),
    }),
    purge: `DELETE FROM ${name} WHERE id IN
      (SELECT id FROM ${name} WHERE LEAST(expires_at, revoked_at) < $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`,
  };
}

/**
 * The rule of every rotation. Without an overlap the old digest is deleted, so that a clock that is behind cannot make the
 * key valid again. During an overlap the new key was never used: only the older key is known to have reached its holder.
 * `$1`: id, `$2`: digest of the new key, `$3`: end of the overlap, `$4`: now, `$5`: request id.
 */
export function buildRotation(name: UsedKeyTable['name']): string {
  return `UPDATE ${name}
    SET previous_key_digest = CASE WHEN $3::timestamptz <= $4 THEN NULL
                                   WHEN previous_key_expires_at > $4 THEN previous_key_digest ELSE key_digest END,
        previous_key_expires_at = CASE WHEN $3 <= $4 THEN NULL ELSE $3 END, key_digest = $2, rotated_at = $4, updated_at = $4,
        rotated_by_request = $5, overlap_ended_at = NULL
    FROM (SELECT id AS held, rotated_at AS rotated, previous_key_expires_at AS overlap
          FROM ${name} WHERE id = $1 FOR NO KEY UPDATE) AS before
    WHERE id = held AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $4)
    RETURNING id, rotated, overlap`;
}

/** An operator's act on a key. */
export function toAuditEvent<Entity extends KeyColumns>(
  table: KeyTable<Entity>,
  act: 'rotated' | 'revoked',
  row: Entity,
  event: Pick<AuditEvent, 'actor' | 'time' | 'details'>,
): AuditEvent {
  return { event: `${table.auditPrefix}.${act}`, subject: row.id, logFields: table.toLogFields(row), ...event };
}

/** A table whose keys are accepted at a door. Its fields are constants in the code, never input: they become SQL. */
export interface UsedKeyTable {
  readonly name: KeyTable['name'] | 'operators';
  readonly door: KeyTable['door'] | 'admin';
  /** The audit event of the first use. */
  readonly event: AuditEventName;
  /** SQL for the details of that event. */
  readonly details: string;
  readonly targetColumn?: string;
}

/**
 * Locks the rows first, so that two replicas that race to record the first use of a key write one audit row. What another
 * service than the key's target reports is not recorded: it cannot have accepted the key. A later use stays on
 * record, unless it is more than an hour in the future: then a replica whose clock was ahead recorded it.
 */
export function buildRecordUses({ name, door, event, details, targetColumn }: UsedKeyTable): Statement {
  const isForTarget = targetColumn ? `AND (used.service IS NULL OR used.service = holder.${targetColumn})` : '';
  const text = `WITH used AS (SELECT * FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::uuid[])
                 AS used (id, at, service, event_id)),
               locked AS (SELECT id, last_used_at FROM ${name} WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE),
               written AS (
                 UPDATE ${name} AS holder SET last_used_at = used.at, last_used_for = used.service
                 FROM locked JOIN used ON used.id = locked.id WHERE holder.id = locked.id
                   AND (locked.last_used_at IS NULL OR locked.last_used_at <= used.at
                     OR locked.last_used_at > now() + interval '1 hour') ${isForTarget}
                 RETURNING used.event_id, used.at, holder.*, locked.last_used_at AS used_before)
          ${insertAuditEvents({
            id: 'event_id',
            time: 'at',
            event: `'${event}'`,
            actor_door: `'${door}'`,
            actor_id: 'id::text',
            subject: 'id::text',
            request_id: 'NULL::text',
            address: 'NULL::text',
            details,
            count: '1',
          })} FROM written WHERE used_before IS NULL`;
  return { name: `${name}_record_use`, text };
}
