// Operators with their keys and passkeys, and their sessions at the console.

import { SqlMigration } from '../sql-migration.js';
import { commentKeyColumns, KEY_COLUMNS } from './key-columns.js';

export class CreateOperators1795651200007 extends SqlMigration {
  readonly create = () => `
    CREATE TABLE operators (
      id                      uuid CONSTRAINT operators_pkey PRIMARY KEY,
      name                    text        NOT NULL,
      scopes                  text[]      NOT NULL,
      ${KEY_COLUMNS},
      CONSTRAINT operators_name_check CHECK (name = lower(name)),
      CONSTRAINT operators_scopes_check CHECK (cardinality(scopes) > 0)
    );
    CREATE UNIQUE INDEX operators_live_name_key ON operators (name) WHERE revoked_at IS NULL;
    CREATE UNIQUE INDEX operators_key_digest_key ON operators (key_digest);
    CREATE INDEX operators_previous_key_digest_idx ON operators (previous_key_digest)
      WHERE previous_key_digest IS NOT NULL;
    COMMENT ON TABLE operators IS
      'people and programs that present a key of their own at the admin door; rows of the audit log have their names too';
    ${commentKeyColumns('operators', 'the finish of the rotation')}
    COMMENT ON COLUMN operators.name IS 'canonical: lower case; does not change';
    COMMENT ON COLUMN operators.scopes IS 'read, nodes, apps, users, operators';
    COMMENT ON COLUMN operators.last_used_for IS 'null: operators present their keys to this service only';

    CREATE TABLE operator_passkeys (
      id            uuid CONSTRAINT operator_passkeys_pkey PRIMARY KEY,
      operator_id   uuid        NOT NULL,
      credential_id bytea       NOT NULL,
      public_key    bytea       NOT NULL,
      counter       bigint      NOT NULL,
      transports    text[]      NOT NULL,
      is_synced     boolean     NOT NULL,
      name          text        NOT NULL,
      created_at    timestamptz NOT NULL,
      last_used_at  timestamptz,
      CONSTRAINT operator_passkeys_credential_id_key UNIQUE (credential_id),
      CONSTRAINT operator_passkeys_operator_id_fkey FOREIGN KEY (operator_id)
        REFERENCES operators (id) ON DELETE CASCADE
    );
    CREATE INDEX operator_passkeys_operator_id_idx ON operator_passkeys (operator_id, id);
    COMMENT ON TABLE operator_passkeys IS 'asked for by the console beside the key; columns as those of passkeys';

    CREATE TABLE console_sessions (
      digest      bytea CONSTRAINT console_sessions_pkey PRIMARY KEY,
      operator_id uuid,
      passkey_id  uuid,
      key_digest  bytea       NOT NULL,
      created_at  timestamptz NOT NULL,
      seen_at     timestamptz NOT NULL,
      confirmed_at timestamptz NOT NULL,
      sent_forms  uuid[]      NOT NULL DEFAULT '{}',
      CONSTRAINT console_sessions_operator_id_fkey FOREIGN KEY (operator_id)
        REFERENCES operators (id) ON DELETE CASCADE,
      CONSTRAINT console_sessions_passkey_id_fkey FOREIGN KEY (passkey_id)
        REFERENCES operator_passkeys (id) ON DELETE CASCADE
    );
    CREATE INDEX console_sessions_passkey_id_idx ON console_sessions (passkey_id) WHERE passkey_id IS NOT NULL;
    COMMENT ON COLUMN console_sessions.operator_id IS 'null for the root key';
    COMMENT ON COLUMN console_sessions.passkey_id IS
      'with which the session began; null is refused once the operator has a passkey';
    COMMENT ON COLUMN console_sessions.key_digest IS 'of the key with which the session began';
    COMMENT ON COLUMN console_sessions.confirmed_at IS
      'when the operator last proved who they are: at the login, or for an act that asks again';
  `;

  readonly drop = 'DROP TABLE console_sessions, operator_passkeys, operators';
}
