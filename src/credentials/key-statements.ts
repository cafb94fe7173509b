import { insertAuditEvents, withAuditEvent } from '../audit/audit-columns.js';
import type { AuditEvent } from '../audit/audit-event.js';
import type { Statement } from '../database/database.js';
import { ANY_GIVEN_ID } from '../database/rows-by-id.js';
import type { LogFields } from '../logging/log-line.js';
import type { KeyColumns } from './key-columns.js';

/** A table whose rows have the columns of KeyColumns. Its parts are constants of the code, never input. */
export interface KeyTable<Entity extends KeyColumns = KeyColumns> {
  readonly name: 'nodes' | 'app_credentials';
  /** The door that its keys open. */
  readonly door: 'node' | 'app';
  /** How the names of what operators do to its keys begin. */
  readonly auditedAs: 'admin.node' | 'admin.app_credential';
  /** What a verified key says about its holder. */
  readonly identityColumns: readonly string[];
  /** Makes a leaked key recognisable to secret scanners. */
  readonly keyPrefix: string;
  /** The log fields of what operators do to a key. */
  toLogFields(row: Entity): LogFields;
}

export interface KeyStatements {
  readonly read: Statement;
  readonly endOverlap: Statement;
  readonly rotate: Statement;
  readonly revoke: Statement;
  readonly recordUse: Statement;
  /** Not prepared: it runs a few times an hour. */
  readonly purge: string;
}

export function keyStatements({ name, door, identityColumns }: KeyTable): KeyStatements {
  const statement = (verb: string, text: string): Statement => ({ name: `${name}_${verb}`, text });
  return {
    read: statement(
      'read',
      `SELECT id, ${identityColumns.join(', ')}, key_digest, previous_key_digest, previous_key_expires_at, expires_at, revoked_at
       FROM ${name} WHERE id = ${ANY_GIVEN_ID}`,
    ),
    endOverlap: statement(
      'end_overlap',
      `UPDATE ${name} SET previous_key_digest = NULL, previous_key_expires_at = NULL,
           overlap_ended_at = LEAST(previous_key_expires_at, $3)
       WHERE id = $1 AND key_digest = $2 RETURNING id`,
    ),
    // Without an overlap nothing of the old key stays: no clock that is behind, or jumps back, may let it in again.
    // While an overlap is open, the new key was never used: the older key is the one that its holder surely has.
    rotate: withAuditEvent(
      statement(
        'rotate',
        `UPDATE ${name}
         SET previous_key_digest = CASE WHEN $3::timestamptz <= $4 THEN NULL
                                        WHEN previous_key_expires_at > $4 THEN previous_key_digest ELSE key_digest END,
             previous_key_expires_at = CASE WHEN $3 <= $4 THEN NULL ELSE $3 END, key_digest = $2, rotated_at = $4, updated_at = $4,
             rotated_by_request = $5, overlap_ended_at = NULL
         FROM (SELECT id AS held, rotated_at AS rotated, previous_key_expires_at AS overlap
               FROM ${name} WHERE id = $1 FOR NO KEY UPDATE) AS before
         WHERE id = held AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $4)
         RETURNING id, rotated, overlap`,
      ),
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
    recordUse: statement('record_use', recordUse(name, door)),
    purge: `DELETE FROM ${name} WHERE id IN
      (SELECT id FROM ${name} WHERE LEAST(expires_at, revoked_at) < $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`,
  };
}

/** An operator's act on a key. */
export function toAuditEvent<Entity extends KeyColumns>(
  table: KeyTable<Entity>,
  act: 'rotated' | 'revoked',
  row: Entity,
  event: Pick<AuditEvent, 'actor' | 'time' | 'details'>,
): AuditEvent {
  return { event: `${table.auditedAs}.${act}`, subject: row.id, logFields: table.toLogFields(row), ...event };
}

/** Locked first: of two replicas that write down the first use of a key, the second one sees that it was recorded. */
function recordUse(name: string, door: string): string {
  return `WITH used AS (SELECT * FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::uuid[])
                 AS used (id, at, service, event_id)),
               locked AS (SELECT id, last_used_at FROM ${name} WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE),
               written AS (
                 UPDATE ${name} AS holder SET last_used_at = used.at, last_used_for = used.service
                 FROM locked JOIN used ON used.id = locked.id WHERE holder.id = locked.id
                   AND (locked.last_used_at IS NULL OR locked.last_used_at <= used.at)
                 RETURNING used.event_id, used.at, holder.id, locked.last_used_at AS used_before)
          ${insertAuditEvents({
            id: 'event_id',
            time: 'at',
            event: `'${door}.first_used'`,
            actor_door: `'${door}'`,
            actor_id: 'id::text',
            subject: 'id::text',
            request_id: 'NULL::text',
            address: 'NULL::text',
            details: `'{}'::jsonb`,
            count: '1',
          })} FROM written WHERE used_before IS NULL`;
}
