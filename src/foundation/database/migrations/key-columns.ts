// Columns that nodes, app credentials and operators share; `KeyColumns` (domain/keys/key-record.ts) maps them.

export const KEY_COLUMNS = `
      key_digest              bytea       NOT NULL,
      previous_key_digest     bytea,
      previous_key_expires_at timestamptz,
      rotated_at              timestamptz,
      expires_at              timestamptz,
      revoked_at              timestamptz,
      last_used_at            timestamptz,
      created_at              timestamptz NOT NULL,
      updated_at              timestamptz NOT NULL,
      rotated_by_request      text,
      overlap_ended_at        timestamptz,
      overlap_ended_by_request text,
      revoked_by_request      text,
      last_used_for           text,
      previous_key_used_at    timestamptz,
      previous_key_used_for   text,
      has_only_reported_uses  boolean     NOT NULL DEFAULT false`;

/** @param overlapEnd what ends the key before the last rotation, unless its deadline does */
export const commentKeyColumns = (table: string, overlapEnd: string): string => `
    COMMENT ON COLUMN ${table}.key_digest IS 'SHA-256 of the key, which has 256 bits';
    COMMENT ON COLUMN ${table}.previous_key_digest IS 'still accepted until ${overlapEnd}, or previous_key_expires_at';
    COMMENT ON COLUMN ${table}.rotated_by_request IS 'id of the request that made the current key';
    COMMENT ON COLUMN ${table}.overlap_ended_at IS
      'when the key before this one ended, unless at its deadline: at ${overlapEnd}';
    COMMENT ON COLUMN ${table}.overlap_ended_by_request IS 'id of the request that finished the rotation';
    COMMENT ON COLUMN ${table}.revoked_by_request IS 'id of the request that revoked it';
    COMMENT ON COLUMN ${table}.last_used_at IS 'of the current key; before its first use, of the key that it replaced';
    COMMENT ON COLUMN ${table}.last_used_for IS 'service that the key was last accepted for, when it was named';
    COMMENT ON COLUMN ${table}.previous_key_used_at IS
      'when the key that the last rotation replaced was last used, before or after that rotation';
    COMMENT ON COLUMN ${table}.previous_key_used_for IS 'service that this use was for, when it was named';
    COMMENT ON COLUMN ${table}.has_only_reported_uses IS 'a service has reported a use, and no replica has seen one yet';`;
