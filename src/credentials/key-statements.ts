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
      `UPDATE ${name} SET previous_key_digest = NULL, previous_key_expires_at = NULL
       WHERE id = $1 AND key_digest = $2 RETURNING id`,
    ),
    // While an overlap is open, the new key was never used: the older key is the one that its holder surely has.
    // Without an overlap nothing of the old key stays: no clock that is behind, or jumps back, may let it in again.
    rotate: statement(
      'rotate',
      `UPDATE ${name}
       SET previous_key_digest = CASE WHEN $3::timestamptz <= $4 THEN NULL
                                      WHEN previous_key_expires_at > $4 THEN previous_key_digest ELSE key_digest END,
           previous_key_expires_at = CASE WHEN $3 <= $4 THEN NULL ELSE $3 END,
           key_digest = $2, rotated_at = $4, updated_at = $4
       WHERE id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $4) RETURNING id`,
    ),
    revoke: statement(
      'revoke',
      `UPDATE ${name} SET revoked_at = $2, updated_at = $2 WHERE id = $1 AND revoked_at IS NULL RETURNING id`,
    ),
    recordUse: statement(
      'record_use',
      `UPDATE ${name} SET last_used_at = GREATEST(last_used_at, used.at)
       FROM unnest($1::uuid[], $2::timestamptz[]) AS used (id, at) WHERE ${name}.id = used.id`,
    ),
    purge: `DELETE FROM ${name} WHERE id IN
      (SELECT id FROM ${name} WHERE LEAST(expires_at, revoked_at) < $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`,
  };
}
