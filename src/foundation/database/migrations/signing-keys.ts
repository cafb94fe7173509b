// Keys that sign access tokens.

import { SqlMigration } from '../sql-migration.js';

export class CreateSigningKeys1795651200008 extends SqlMigration {
  readonly create = () => `
    CREATE TABLE signing_algorithms (
      algorithm      text CONSTRAINT signing_algorithms_pkey PRIMARY KEY,
      last_signed_at timestamptz
    );
    COMMENT ON COLUMN signing_algorithms.last_signed_at IS
      'to the minute; its tokens are accepted for one token life after it';
    INSERT INTO signing_algorithms (algorithm) VALUES ('HS256'), ('ES256');

    CREATE TABLE signing_keys (
      id                    uuid CONSTRAINT signing_keys_pkey PRIMARY KEY,
      kid                   text        NOT NULL,
      algorithm             text        NOT NULL,
      state                 text        NOT NULL,
      encrypted_private_key bytea,
      created_at            timestamptz NOT NULL,
      activated_at          timestamptz,
      retired_at            timestamptz,
      revoked_at            timestamptz,
      CONSTRAINT signing_keys_kid_key UNIQUE (kid),
      CONSTRAINT signing_keys_algorithm_fkey FOREIGN KEY (algorithm) REFERENCES signing_algorithms (algorithm),
      CONSTRAINT signing_keys_state_check CHECK (state IN ('next', 'active', 'retired', 'revoked'))
    );
    CREATE UNIQUE INDEX signing_keys_state_key ON signing_keys (algorithm, state) WHERE state IN ('next', 'active');
    COMMENT ON COLUMN signing_keys.kid IS 'thumbprint of the public key (RFC 7638)';
    COMMENT ON COLUMN signing_keys.encrypted_private_key IS
      'PKCS #8 under AES-256-GCM with a key derived from MASTER_KEY; null once no token needs it';
  `;

  readonly drop = 'DROP TABLE signing_keys, signing_algorithms';
}
