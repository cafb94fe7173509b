// Users, with their passwords and addresses.

import { SqlMigration } from '../sql-migration.js';

export class CreateUsers1795651200001 extends SqlMigration {
  readonly create = () => `
    CREATE TABLE users (
      id                  uuid CONSTRAINT users_pkey PRIMARY KEY,
      email               text           NOT NULL,
      password_hash       text           NOT NULL,
      is_active           boolean        NOT NULL,
      created_at          timestamptz    NOT NULL,
      updated_at          timestamptz    NOT NULL,
      password_changed_at timestamptz(3),
      email_verified_at   timestamptz,
      factors_changed_at  timestamptz(3),
      CONSTRAINT users_email_key UNIQUE (email),
      CONSTRAINT users_email_canonical_check CHECK (email = lower(email))
    );
    CREATE INDEX users_created_at_idx ON users (created_at);
    CREATE INDEX users_disabled_idx ON users (id) WHERE NOT is_active;
    CREATE INDEX users_unverified_idx ON users (id) WHERE email_verified_at IS NULL;
    COMMENT ON COLUMN users.email IS 'canonical form: printable ASCII in lower case';
    COMMENT ON COLUMN users.password_hash IS 'bcrypt, $2b$; over 72 bytes reduced with HMAC-SHA-256 first';
    COMMENT ON COLUMN users.password_changed_at IS
      'when the password was set, and later at each change; not at a rehash. Null: imported';
    COMMENT ON COLUMN users.email_verified_at IS
      'when a link proved that the address reaches its owner; null: not proven';
    COMMENT ON COLUMN users.factors_changed_at IS
      'identifies the set of second factors: a login that read another one is refused; null: never changed';
  `;

  readonly drop = 'DROP TABLE users';
}
