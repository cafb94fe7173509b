import type { Statement } from '../database/database.js';

/** A table whose rows have the columns of KeyColumns. Its parts are constants of the code, never input. */
export interface KeyTable {
  readonly name: 'nodes' | 'app_credentials';
  /** What a verified key says about its holder. */
  readonly identityColumns: readonly string[];
  /** Makes a leaked key recognisable to secret scanners. */
  readonly keyPrefix: string;
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

export function keyStatements({ name, identityColumns }: KeyTable): KeyStatements {
  const statement = (verb: string, text: string): Statement => ({ name: `${name}_${verb}`, text });
  return {
    read: statement(
      'read',
      `SELECT id, ${identityColumns.join(', ')}, key_digest, previous_key_digest, previous_key_expires_at, expires_at, revoked_at
       FROM ${name} WHERE id = $1`,
    ),
    endOverlap: statement(
      'end_overlap',
      `UPDATE ${name} SET previous_key_digest = NULL, previous_key_expires_at = NULL,
           overlap_ended_at = LEAST(previous_key_expires_at, $3)
       WHERE id = $1 AND key_digest = $2 RETURNING id`,
    ),
    // While an overlap is open, the new key was never used: the older key is the one that its holder surely has.
    rotate: statement(
      'rotate',
      `UPDATE ${name}
       SET previous_key_digest = CASE WHEN previous_key_expires_at > $4 THEN previous_key_digest ELSE key_digest END,
           previous_key_expires_at = $3, key_digest = $2, rotated_at = $4, updated_at = $4,
           rotated_by_request = $5, overlap_ended_at = NULL
       WHERE id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $4) RETURNING id`,
    ),
    revoke: statement(
      'revoke',
      `UPDATE ${name} SET revoked_at = $2, updated_at = $2, revoked_by_request = $3
       WHERE id = $1 AND revoked_at IS NULL RETURNING id`,
    ),
    recordUse: statement(
      'record_use',
      `UPDATE ${name} SET last_used_at = used.at, last_used_for = used.service
       FROM unnest($1::uuid[], $2::timestamptz[], $3::text[]) AS used (id, at, service)
       WHERE ${name}.id = used.id AND (last_used_at IS NULL OR last_used_at <= used.at)`,
    ),
    purge: `DELETE FROM ${name} WHERE id IN
      (SELECT id FROM ${name} WHERE LEAST(expires_at, revoked_at) < $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`,
  };
}
