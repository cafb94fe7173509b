// Authenticator apps with their recovery codes, and passkeys.

import { SqlMigration } from '../sql-migration.js';

export class CreateSecondFactors1795651200004 extends SqlMigration {
  readonly create = () => `
    CREATE TABLE totp_factors (
      user_id          uuid CONSTRAINT totp_factors_pkey PRIMARY KEY,
      encrypted_secret bytea       NOT NULL,
      key_mark         bytea       NOT NULL,
      last_step        bigint,
      confirmed_at     timestamptz,
      created_at       timestamptz NOT NULL,
      CONSTRAINT totp_factors_user_id_fkey FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE
    );
    CREATE INDEX totp_factors_key_mark_idx ON totp_factors (key_mark);
    COMMENT ON COLUMN totp_factors.encrypted_secret IS
      '20 bytes under AES-256-GCM with a key derived from MASTER_KEY';
    COMMENT ON COLUMN totp_factors.key_mark IS 'tells which key encrypted the secret; it reveals nothing of the key';
    COMMENT ON COLUMN totp_factors.last_step IS
      'time step of the last accepted code (RFC 6238): no code of it or before is accepted again';
    COMMENT ON COLUMN totp_factors.confirmed_at IS 'null: not asked for at a login yet';

    CREATE TABLE recovery_codes (
      user_id uuid  NOT NULL,
      digest  bytea NOT NULL,
      CONSTRAINT recovery_codes_pkey PRIMARY KEY (user_id, digest),
      CONSTRAINT recovery_codes_user_id_fkey FOREIGN KEY (user_id) REFERENCES totp_factors (user_id) ON DELETE CASCADE
    );
    COMMENT ON TABLE recovery_codes IS 'unused codes: a used one is deleted';
    COMMENT ON COLUMN recovery_codes.digest IS 'SHA-256 of a code of 160 random bits';

    CREATE TABLE passkeys (
      id            uuid CONSTRAINT passkeys_pkey PRIMARY KEY,
      user_id       uuid        NOT NULL,
      credential_id bytea       NOT NULL,
      public_key    bytea       NOT NULL,
      counter       bigint      NOT NULL,
      transports    text[]      NOT NULL,
      is_synced     boolean     NOT NULL,
      name          text        NOT NULL,
      created_at    timestamptz NOT NULL,
      last_used_at  timestamptz,
      CONSTRAINT passkeys_credential_id_key UNIQUE (credential_id),
      CONSTRAINT passkeys_user_id_fkey FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE
    );
    CREATE INDEX passkeys_user_id_idx ON passkeys (user_id, id);
    COMMENT ON COLUMN passkeys.public_key IS 'COSE key (RFC 9052)';
    COMMENT ON COLUMN passkeys.counter IS 'signature counter of the last login; authenticators without one send 0';
    COMMENT ON COLUMN passkeys.is_synced IS 'the authenticator may copy the private key to other devices (flag BE)';

    CREATE TABLE used_challenges (
      digest     bytea CONSTRAINT used_challenges_pkey PRIMARY KEY,
      expires_at timestamptz NOT NULL
    );
    CREATE INDEX used_challenges_expires_at_idx ON used_challenges (expires_at);
    COMMENT ON TABLE used_challenges IS
      'challenges that a login or a registration of a passkey has used, until they expire';
    COMMENT ON COLUMN used_challenges.digest IS 'SHA-256';
  `;

  readonly drop = 'DROP TABLE used_challenges, passkeys, recovery_codes, totp_factors';
}
