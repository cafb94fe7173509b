// Keys that services present to each other.

import { SqlMigration } from '../sql-migration.js';
import { commentKeyColumns, KEY_COLUMNS } from './key-columns.js';

export class CreateAppCredentials1795651200005 extends SqlMigration {
  readonly create = () => `
    CREATE TABLE app_credentials (
      id                      uuid CONSTRAINT app_credentials_pkey PRIMARY KEY,
      caller                  text        NOT NULL,
      target                  text        NOT NULL,
      ${KEY_COLUMNS},
      life_days               integer,
      scopes                  text[],
      scopes_changed_at       timestamptz,
      scope_uses              jsonb       NOT NULL DEFAULT '{}',
      for_users               boolean     NOT NULL DEFAULT false,
      for_users_changed_at    timestamptz,
      for_users_used_at       timestamptz,
      for_users_revision      integer     NOT NULL DEFAULT 0,
      CONSTRAINT app_credentials_for_users_check CHECK (NOT for_users OR scopes IS NOT NULL)
    );
    CREATE UNIQUE INDEX app_credentials_live_pair_key ON app_credentials (caller, target) WHERE revoked_at IS NULL;
    CREATE INDEX app_credentials_previous_key_expires_at_idx ON app_credentials (previous_key_expires_at)
      WHERE previous_key_expires_at IS NOT NULL;
    CREATE INDEX app_credentials_dead_at_idx ON app_credentials (LEAST(expires_at, revoked_at));
    COMMENT ON TABLE app_credentials IS 'one key a pair of services: caller presents it to target';
    ${commentKeyColumns('app_credentials', 'the finish of the rotation')}
    COMMENT ON COLUMN app_credentials.life_days IS
      'life of each key in days (APP_KEY_DAYS): a rotation moves expires_at; null: it stays';
    COMMENT ON COLUMN app_credentials.scopes IS 'the only scopes that the credential has; null: all';
    COMMENT ON COLUMN app_credentials.scope_uses IS
      'when each scope was last asked for; does not evict the key from caches';
    COMMENT ON COLUMN app_credentials.for_users IS
      'the caller gets tokens for users at the target (RFC 8693), with these scopes';
    COMMENT ON COLUMN app_credentials.for_users_used_at IS
      'when such a token was last issued, to an hour; does not evict the key from caches';
    COMMENT ON COLUMN app_credentials.for_users_revision IS
      'how often for_users was turned on again: tokens for users of an earlier revision are not valid';

    -- A trigger, so that a change by psql ends tokens too.
    CREATE FUNCTION count_for_users_revision() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      NEW.for_users_revision := OLD.for_users_revision + 1;
      RETURN NEW;
    END $$;
    CREATE TRIGGER app_credentials_count_for_users_revision BEFORE UPDATE ON app_credentials FOR EACH ROW
      WHEN (NEW.for_users AND NOT OLD.for_users) EXECUTE FUNCTION count_for_users_revision();
    ALTER TABLE app_credentials ENABLE ALWAYS TRIGGER app_credentials_count_for_users_revision;
  `;

  readonly drop = 'DROP TABLE app_credentials; DROP FUNCTION count_for_users_revision()';
}
