// The feed of changes that replicas and verifiers poll (docs/decisions/0033 and 0044), and the triggers that write it,
// so that changes by psql are recorded too.

import { SqlMigration } from '../sql-migration.js';

/** The columns of the use of a key, which changes no verdict. */
const USE_COLUMNS = [
  'last_used_at',
  'last_used_for',
  'previous_key_used_at',
  'previous_key_used_for',
  'has_only_reported_uses',
];

/** The triggers also fire under `session_replication_role = replica`, which restores and logical replication set. */
export class CreateChangeFeed1795651200014 extends SqlMigration {
  readonly create = (schema: string) => `
    CREATE TABLE credential_changes (
      seq           bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT credential_changes_pkey PRIMARY KEY,
      xid           xid8        NOT NULL DEFAULT pg_current_xact_id(),
      credential_id uuid,
      at            timestamptz NOT NULL DEFAULT now(),
      kind          text
    );
    CREATE INDEX credential_changes_xid_idx ON credential_changes (xid);
    CREATE INDEX credential_changes_at_idx ON credential_changes (at);
    CREATE INDEX credential_changes_session_at_idx ON credential_changes (at) WHERE kind = 'session';
    COMMENT ON TABLE credential_changes IS
      'what replicas must forget; read by transaction, since a lower seq can commit after a higher one';
    COMMENT ON COLUMN credential_changes.credential_id IS 'null: anything may have changed';
    COMMENT ON COLUMN credential_changes.kind IS
      'node, app, session, user, signing_key; null: anything may have changed';

    CREATE TABLE credential_change_purges (
      is_only_row boolean CONSTRAINT credential_change_purges_pkey PRIMARY KEY DEFAULT true,
      purged      xid8    NOT NULL,
      CONSTRAINT credential_change_purges_only_row_check CHECK (is_only_row)
    );
    COMMENT ON COLUMN credential_change_purges.purged IS
      'the highest transaction that credential_changes no longer has';
    INSERT INTO credential_change_purges (purged) VALUES ('0');

    CREATE TABLE replica_leases (
      id       uuid CONSTRAINT replica_leases_pkey PRIMARY KEY,
      lease_ms integer     NOT NULL,
      seen_at  timestamptz NOT NULL DEFAULT now()
    );
    COMMENT ON TABLE replica_leases IS
      'how long each live process may answer from its cache; revoking calls wait for the longest';
    COMMENT ON COLUMN replica_leases.seen_at IS
      'a process stops using its cache half a minute after it, and counts as gone after a minute';

    CREATE TABLE verifier_polls (
      app_id    uuid CONSTRAINT verifier_polls_pkey PRIMARY KEY,
      polled_at timestamptz NOT NULL,
      CONSTRAINT verifier_polls_app_id_fkey FOREIGN KEY (app_id) REFERENCES app_credentials (id) ON DELETE CASCADE
    );
    COMMENT ON TABLE verifier_polls IS 'when a verifier of each service last polled for changes, to half a minute';

    -- Ended sessions are found by polling: NOTIFY takes a lock of the whole cluster at each commit, for which logouts
    -- would queue.
    CREATE FUNCTION record_credential_change() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
      max_changes CONSTANT integer := 1000;
      kind CONSTANT text := TG_ARGV[0];
      -- Undone with the rows when a savepoint is rolled back.
      recorded integer := COALESCE(NULLIF(current_setting('platform_auth.changes_recorded', true), ''), '0')::integer;
      changed uuid;
    BEGIN
      -- Under the name of another kind, the change would evict nothing.
      IF kind IS NULL THEN
        RAISE EXCEPTION 'record_credential_change() has no kind for the table %', TG_TABLE_NAME;
      END IF;
      -- One transaction records at most max_changes rows: replicas clear their caches rather than read more.
      IF recorded <= max_changes THEN
        IF TG_LEVEL = 'ROW' AND recorded < max_changes THEN
          changed := OLD.id;
        END IF;
        INSERT INTO ${schema}.credential_changes (kind, credential_id) VALUES (kind, changed);
        PERFORM set_config('platform_auth.changes_recorded', (recorded + 1)::text, true);
        IF kind <> 'session' THEN
          NOTIFY credential_changes;
        END IF;
      END IF;
      RETURN NULL;
    END $$;

    ${buildKeyChangeTriggers('nodes', 'node')}
    ${buildKeyChangeTriggers('app_credentials', 'app', ['scope_uses', 'for_users_used_at'])}

    -- A rotation of the refresh token is not recorded: it leaves the access token valid.
    CREATE TRIGGER sessions_record_update AFTER UPDATE ON sessions FOR EACH ROW
      WHEN ((OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL)
        OR (OLD.user_id, OLD.absolute_expires_at) IS DISTINCT FROM (NEW.user_id, NEW.absolute_expires_at))
      EXECUTE FUNCTION record_credential_change('session');
    -- The purge deletes what ended or expired long ago: no verifier remembers it.
    CREATE TRIGGER sessions_record_delete AFTER DELETE ON sessions FOR EACH ROW
      WHEN (OLD.ended_at IS NULL AND OLD.expires_at > now()) EXECUTE FUNCTION record_credential_change('session');
    CREATE TRIGGER sessions_record_truncate AFTER TRUNCATE ON sessions EXECUTE FUNCTION record_credential_change('session');
    ALTER TABLE sessions
      ENABLE ALWAYS TRIGGER sessions_record_update,
      ENABLE ALWAYS TRIGGER sessions_record_delete,
      ENABLE ALWAYS TRIGGER sessions_record_truncate;

    CREATE TRIGGER users_record_update AFTER UPDATE ON users FOR EACH ROW
      WHEN ((OLD.is_active, OLD.email) IS DISTINCT FROM (NEW.is_active, NEW.email))
      EXECUTE FUNCTION record_credential_change('user');
    CREATE TRIGGER users_record_delete AFTER DELETE ON users FOR EACH ROW EXECUTE FUNCTION record_credential_change('user');
    CREATE TRIGGER users_record_truncate AFTER TRUNCATE ON users EXECUTE FUNCTION record_credential_change('user');
    ALTER TABLE users
      ENABLE ALWAYS TRIGGER users_record_update,
      ENABLE ALWAYS TRIGGER users_record_delete,
      ENABLE ALWAYS TRIGGER users_record_truncate;

    CREATE FUNCTION record_signing_key_change() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
      changed uuid;
    BEGIN
      -- Without an id: replicas and verifiers evict everything that they accepted.
      IF TG_OP = 'INSERT' OR (TG_OP = 'UPDATE' AND NEW.state <> 'revoked') THEN
        changed := NEW.id;
      END IF;
      INSERT INTO ${schema}.credential_changes (kind, credential_id) VALUES ('signing_key', changed);
      NOTIFY credential_changes;
      RETURN NULL;
    END $$;
    CREATE TRIGGER signing_keys_record_insert AFTER INSERT ON signing_keys FOR EACH ROW
      EXECUTE FUNCTION record_signing_key_change();
    -- The encryption of a private key is not a change of the key.
    CREATE TRIGGER signing_keys_record_update AFTER UPDATE ON signing_keys FOR EACH ROW
      WHEN ((OLD.id, OLD.kid, OLD.state, OLD.retired_at)
        IS DISTINCT FROM (NEW.id, NEW.kid, NEW.state, NEW.retired_at))
      EXECUTE FUNCTION record_signing_key_change();
    CREATE TRIGGER signing_keys_record_delete AFTER DELETE ON signing_keys FOR EACH ROW
      EXECUTE FUNCTION record_signing_key_change();
    CREATE TRIGGER signing_keys_record_truncate AFTER TRUNCATE ON signing_keys
      EXECUTE FUNCTION record_signing_key_change();
    ALTER TABLE signing_keys
      ENABLE ALWAYS TRIGGER signing_keys_record_insert,
      ENABLE ALWAYS TRIGGER signing_keys_record_update,
      ENABLE ALWAYS TRIGGER signing_keys_record_delete,
      ENABLE ALWAYS TRIGGER signing_keys_record_truncate;

    -- A dump of another cluster brings transaction ids that this one has not assigned yet: they say nothing about it.
    CREATE FUNCTION record_credential_change_purge() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      UPDATE ${schema}.credential_change_purges SET purged = GREATEST(
        CASE WHEN purged < pg_snapshot_xmax(pg_current_snapshot()) THEN purged END,
        (SELECT xid FROM gone WHERE xid < pg_snapshot_xmax(pg_current_snapshot()) ORDER BY xid DESC LIMIT 1),
        '0') WHERE EXISTS (SELECT FROM gone);
      RETURN NULL;
    END $$;
    CREATE TRIGGER credential_changes_record_purge AFTER DELETE ON credential_changes
      REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION record_credential_change_purge();
    ALTER TABLE credential_changes ENABLE ALWAYS TRIGGER credential_changes_record_purge;
  `;

  readonly drop = `
    DROP FUNCTION record_credential_change(), record_signing_key_change(), record_credential_change_purge() CASCADE;
    DROP TABLE verifier_polls, replica_leases, credential_change_purges, credential_changes;
  `;
}

/**
 * Builds the triggers that publish every change of a table of keys but their use.
 * @param kind that of the changes, as in `cachedAs` of common/key-kinds.ts
 * @param ignored further columns on which no verdict depends
 */
function buildKeyChangeTriggers(table: string, kind: string, ignored: readonly string[] = []): string {
  const strip = (row: string): string => `(to_jsonb(${row}) - '{${[...USE_COLUMNS, ...ignored].join(',')}}'::text[])`;
  const publish = `EXECUTE FUNCTION record_credential_change('${kind}')`;
  return `
    CREATE TRIGGER ${table}_record_update AFTER UPDATE ON ${table} FOR EACH ROW
      WHEN (${strip('OLD')} IS DISTINCT FROM ${strip('NEW')}) ${publish};
    CREATE TRIGGER ${table}_record_delete AFTER DELETE ON ${table} FOR EACH ROW ${publish};
    CREATE TRIGGER ${table}_record_truncate AFTER TRUNCATE ON ${table} ${publish};
    ALTER TABLE ${table}
      ENABLE ALWAYS TRIGGER ${table}_record_update,
      ENABLE ALWAYS TRIGGER ${table}_record_delete,
      ENABLE ALWAYS TRIGGER ${table}_record_truncate;`;
}
