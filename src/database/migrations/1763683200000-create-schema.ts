import type { MigrationInterface, QueryRunner } from 'typeorm';

const KEY_COLUMNS = `
  key_digest              bytea       NOT NULL,
  previous_key_digest     bytea,
  previous_key_expires_at timestamptz,
  rotated_at              timestamptz,
  expires_at              timestamptz,
  revoked_at              timestamptz,
  last_used_at            timestamptz,
  created_at              timestamptz NOT NULL,
  updated_at              timestamptz NOT NULL`;

/** Users, their sessions, and the two kinds of generated keys. Runs on an empty schema in milliseconds. */
export class CreateSchema1763683200000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE users (
        id            uuid        NOT NULL,
        email         text        NOT NULL,
        password_hash text        NOT NULL,
        is_active     boolean     NOT NULL,
        created_at    timestamptz NOT NULL,
        updated_at    timestamptz NOT NULL,
        CONSTRAINT users_pkey PRIMARY KEY (id),
        CONSTRAINT users_email_key UNIQUE (email),
        CONSTRAINT users_email_canonical_check CHECK (email = lower(email))
      );
      COMMENT ON COLUMN users.email IS 'canonical form: printable ASCII in lower case';
      COMMENT ON COLUMN users.password_hash IS 'bcrypt, $2b$; over 72 bytes reduced with HMAC-SHA-256 first';

      CREATE TABLE sessions (
        id                  uuid        NOT NULL,
        user_id             uuid        NOT NULL,
        token_digest        bytea       NOT NULL,
        generation          integer     NOT NULL,
        rotated_at          timestamptz NOT NULL,
        expires_at          timestamptz NOT NULL,
        absolute_expires_at timestamptz NOT NULL,
        ended_at            timestamptz,
        end_reason          text,
        created_at          timestamptz NOT NULL,
        CONSTRAINT sessions_pkey PRIMARY KEY (id),
        CONSTRAINT sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE
      );
      CREATE INDEX sessions_user_id_idx ON sessions (user_id, id);
      CREATE INDEX sessions_dead_at_idx ON sessions (LEAST(expires_at, ended_at));
      COMMENT ON TABLE sessions IS 'one row a login, however often its refresh token rotates';
      COMMENT ON COLUMN sessions.token_digest IS 'SHA-256 of the refresh token of this generation, the only one that is current';
      COMMENT ON COLUMN sessions.end_reason IS 'logout, reuse, admin or disabled';

      CREATE TABLE app_credentials (
        id     uuid NOT NULL,
        caller text NOT NULL,
        target text NOT NULL,
        ${KEY_COLUMNS},
        CONSTRAINT app_credentials_pkey PRIMARY KEY (id)
      );
      CREATE UNIQUE INDEX app_credentials_live_pair_key ON app_credentials (caller, target) WHERE revoked_at IS NULL;
      CREATE INDEX app_credentials_dead_at_idx ON app_credentials (LEAST(expires_at, revoked_at));
      COMMENT ON TABLE app_credentials IS 'one key a pair of services: caller presents it to target';
      COMMENT ON COLUMN app_credentials.previous_key_digest IS 'still accepted until the new key is first used or previous_key_expires_at';

      CREATE TABLE nodes (
        id           uuid NOT NULL,
        household_id uuid NOT NULL,
        room         text NOT NULL,
        name         text NOT NULL,
        ${KEY_COLUMNS},
        CONSTRAINT nodes_pkey PRIMARY KEY (id)
      );
      CREATE INDEX nodes_household_id_idx ON nodes (household_id, id);
      CREATE INDEX nodes_dead_at_idx ON nodes (LEAST(expires_at, revoked_at));
      COMMENT ON TABLE nodes IS 'edge devices in a household';
      COMMENT ON COLUMN nodes.previous_key_digest IS 'still accepted until the new key is first used or previous_key_expires_at';
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE nodes; DROP TABLE app_credentials; DROP TABLE sessions; DROP TABLE users;');
  }
}
