import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Second factors of users (docs/decisions/0049), and how each session was made. The new column of `sessions` has a
 * constant default, so no row is rewritten; its lock lasts milliseconds. A replica of the version before this one makes
 * sessions with that default, which is what they are.
 */
export class AddSecondFactors1763771800000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      ALTER TABLE sessions ADD COLUMN amr text[] NOT NULL DEFAULT '{pwd}';
      COMMENT ON COLUMN sessions.amr IS 'how the user authenticated at the login (RFC 8176)';

      ALTER TABLE users ADD COLUMN factors_changed_at timestamptz(3);
      COMMENT ON COLUMN users.factors_changed_at IS
        'identifies the set of second factors: a login that read another one is refused; null: never changed';

      CREATE TABLE totp_factors (
        user_id          uuid        NOT NULL,
        encrypted_secret bytea       NOT NULL,
        key_mark         bytea       NOT NULL,
        last_step        bigint,
        confirmed_at     timestamptz,
        created_at       timestamptz NOT NULL,
        CONSTRAINT totp_factors_pkey PRIMARY KEY (user_id),
        CONSTRAINT totp_factors_user_id_fkey FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE
      );
      COMMENT ON COLUMN totp_factors.encrypted_secret IS '20 bytes under AES-256-GCM with a key derived from SECRET_KEY';
      COMMENT ON COLUMN totp_factors.key_mark IS 'tells which key encrypted the secret; it reveals nothing of the key';
      COMMENT ON COLUMN totp_factors.last_step IS 'time step of the last accepted code (RFC 6238): no code of it or before is accepted again';
      COMMENT ON COLUMN totp_factors.confirmed_at IS 'null: not asked for at a login yet';

      CREATE TABLE recovery_codes (
        user_id uuid  NOT NULL,
        digest  bytea NOT NULL,
        CONSTRAINT recovery_codes_pkey PRIMARY KEY (user_id, digest),
        CONSTRAINT recovery_codes_user_id_fkey FOREIGN KEY (user_id) REFERENCES totp_factors (user_id) ON DELETE CASCADE
      );
      COMMENT ON TABLE recovery_codes IS 'unused codes: a used one is deleted';
      COMMENT ON COLUMN recovery_codes.digest IS 'SHA-256 of a code of 120 random bits';

      CREATE TABLE passkeys (
        id            uuid        NOT NULL,
        user_id       uuid        NOT NULL,
        credential_id bytea       NOT NULL,
        public_key    bytea       NOT NULL,
        counter       bigint      NOT NULL,
        transports    text[]      NOT NULL,
        is_synced     boolean     NOT NULL,
        name          text        NOT NULL,
        created_at    timestamptz NOT NULL,
        last_used_at  timestamptz,
        CONSTRAINT passkeys_pkey PRIMARY KEY (id),
        CONSTRAINT passkeys_credential_id_key UNIQUE (credential_id),
        CONSTRAINT passkeys_user_id_fkey FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE
      );
      CREATE INDEX passkeys_user_id_idx ON passkeys (user_id, id);
      COMMENT ON COLUMN passkeys.public_key IS 'COSE key (RFC 9052)';
      COMMENT ON COLUMN passkeys.counter IS 'signature counter of the last login; authenticators without one send 0';
      COMMENT ON COLUMN passkeys.is_synced IS 'the authenticator may copy the private key to other devices (flag BE)';

      CREATE TABLE used_challenges (
        digest     bytea       NOT NULL,
        expires_at timestamptz NOT NULL,
        CONSTRAINT used_challenges_pkey PRIMARY KEY (digest)
      );
      CREATE INDEX used_challenges_expires_at_idx ON used_challenges (expires_at);
      COMMENT ON TABLE used_challenges IS 'challenges that a login or a registration of a passkey has used, until they expire';
      COMMENT ON COLUMN used_challenges.digest IS 'SHA-256';

      CREATE TABLE failed_second_factors (
        account           bytea       NOT NULL,
        window_start      timestamptz NOT NULL,
        id                uuid        NOT NULL,
        time              timestamptz NOT NULL,
        last_at           timestamptz NOT NULL,
        subject           text        NOT NULL,
        request_id        text,
        caller_request_id text,
        address           text,
        count             integer     NOT NULL,
        reasons           jsonb       NOT NULL,
        CONSTRAINT failed_second_factors_pkey PRIMARY KEY (account, window_start)
      );
      CREATE INDEX failed_second_factors_window_start_idx ON failed_second_factors (window_start);
      COMMENT ON TABLE failed_second_factors IS 'windows that are still open; closed ones move to audit_events';
      COMMENT ON COLUMN failed_second_factors.account IS 'HMAC of the id of the user, or of a network where the user is not known';
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`
      DROP TABLE failed_second_factors;
      DROP TABLE used_challenges;
      DROP TABLE passkeys;
      DROP TABLE recovery_codes;
      DROP TABLE totp_factors;
      ALTER TABLE users DROP COLUMN factors_changed_at;
      ALTER TABLE sessions DROP COLUMN amr;
    `);
  }
}
