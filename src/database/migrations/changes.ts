// The feed of changes that replicas and verifiers poll (docs/decisions/0033 and 0044), and the triggers that write it.

import { createTriggers, defineMigration, dropTriggers } from '../define-migration.js';

const KEY_TABLES = ['nodes', 'app_credentials'];
const KEY_TRIGGERS = KEY_TABLES.flatMap((table) =>
  ['update', 'delete', 'truncate'].map((act) => ({ table, name: `${table}_record_${act}` })),
);
const PURGE_TRIGGER =
  'credential_changes_record_purge AFTER DELETE ON credential_changes REFERENCING OLD TABLE AS gone FOR EACH STATEMENT';

/** A rotation of the refresh token is not recorded: it leaves the access token valid. */
const SESSION_AND_USER_TRIGGERS = [
  `sessions_record_update AFTER UPDATE ON sessions FOR EACH ROW
     WHEN ((OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL)
       OR (OLD.user_id, OLD.absolute_expires_at) IS DISTINCT FROM (NEW.user_id, NEW.absolute_expires_at))`,
  // The purge deletes what ended or expired long ago: no verifier remembers it.
  `sessions_record_delete AFTER DELETE ON sessions FOR EACH ROW
     WHEN (OLD.ended_at IS NULL AND OLD.expires_at > now())`,
  `sessions_record_truncate AFTER TRUNCATE ON sessions FOR EACH STATEMENT`,
  `users_record_update AFTER UPDATE ON users FOR EACH ROW
     WHEN ((OLD.is_active, OLD.email) IS DISTINCT FROM (NEW.is_active, NEW.email))`,
  `users_record_delete AFTER DELETE ON users FOR EACH ROW`,
  `users_record_truncate AFTER TRUNCATE ON users FOR EACH STATEMENT`,
];

/** @param columns that a use of a key writes: it does not evict the key from caches */
const createUpdateTriggers = (columns: string, tables = KEY_TABLES): string =>
  tables
    .map(
      (table) => `
      CREATE OR REPLACE TRIGGER ${table}_record_update AFTER UPDATE ON ${table} FOR EACH ROW
        WHEN ((to_jsonb(OLD) - '${columns}'::text[]) IS DISTINCT FROM (to_jsonb(NEW) - '${columns}'::text[]))
        EXECUTE FUNCTION record_credential_change();`,
    )
    .join('');

/** A replaced trigger has lost its ENABLE ALWAYS. */
export const replaceUpdateTriggers = (columns: string, tables = KEY_TABLES): string =>
  [
    createUpdateTriggers(columns, tables),
    ...tables.map((table) => `ALTER TABLE ${table} ENABLE ALWAYS TRIGGER ${table}_record_update;`),
  ].join('\n');

/** @param state `ENABLE ALWAYS`: also under session_replication_role = replica */
const setKeyTriggers = (state: 'ENABLE' | 'ENABLE ALWAYS'): string =>
  KEY_TRIGGERS.map(({ table, name }) => `ALTER TABLE ${table} ${state} TRIGGER ${name};`).join('\n');

const RECORD_EACH_CHANGE = `
      CREATE OR REPLACE FUNCTION record_credential_change() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF TG_LEVEL = 'ROW' THEN
          INSERT INTO credential_changes (credential_id) VALUES (OLD.id);
        ELSE
          INSERT INTO credential_changes (credential_id) VALUES (NULL);
        END IF;
        NOTIFY credential_changes;
        RETURN NULL;
      END $$;`;

/** @param silentKind changes of this kind notify no replica */
const recordChanges = (schema: string, silentKind = ''): string => `
    CREATE OR REPLACE FUNCTION record_credential_change() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
      max_changes CONSTANT integer := 1000;
      kind CONSTANT text := CASE TG_TABLE_NAME
        WHEN 'nodes' THEN 'node' WHEN 'sessions' THEN 'session' WHEN 'users' THEN 'user' ELSE 'app' END;
      -- Undone with the rows when a savepoint is rolled back.
      recorded integer := COALESCE(NULLIF(current_setting('platform_auth.changes_recorded', true), ''), '0')::integer;
      changed uuid;
    BEGIN
      -- One transaction records at most max_changes rows: replicas clear their caches rather than read more.
      IF recorded <= max_changes THEN
        IF TG_LEVEL = 'ROW' AND recorded < max_changes THEN
          changed := OLD.id;
        END IF;
        INSERT INTO ${schema}.credential_changes (kind, credential_id) VALUES (kind, changed);
        PERFORM set_config('platform_auth.changes_recorded', (recorded + 1)::text, true);
        IF kind <> '${silentKind}' THEN
          NOTIFY credential_changes;
        END IF;
      END IF;
      RETURN NULL;
    END $$;`;

/** @param mark SQL over the rows that are `gone` */
const recordPurges = (schema: string, mark: string): string => `
    CREATE OR REPLACE FUNCTION record_credential_change_purge() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      UPDATE ${schema}.credential_change_purges SET purged = ${mark} WHERE EXISTS (SELECT FROM gone);
      RETURN NULL;
    END $$;`;
const HIGHEST_GONE = 'GREATEST(purged, (SELECT xid FROM gone ORDER BY xid DESC LIMIT 1))';
const buildIsOwn = (xid: string): string => `${xid} < pg_snapshot_xmax(pg_current_snapshot())`;
const HIGHEST_OWN = `GREATEST(
          CASE WHEN ${buildIsOwn('purged')} THEN purged END,
          (SELECT xid FROM gone WHERE ${buildIsOwn('xid')} ORDER BY xid DESC LIMIT 1),
          '0')`;

export const changeMigrations = [
  /**
   * The feed of changed keys for replicas (docs/decisions/0033). Triggers write it, so that changes by psql are recorded
   * too.
   */
  defineMigration('CreateCredentialChanges1763683600000', {
    up: `
      CREATE TABLE credential_changes (
        seq           bigint      GENERATED ALWAYS AS IDENTITY,
        xid           xid8        NOT NULL DEFAULT pg_current_xact_id(),
        credential_id uuid,
        at            timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT credential_changes_pkey PRIMARY KEY (seq)
      );
      CREATE INDEX credential_changes_xid_idx ON credential_changes (xid);
      CREATE INDEX credential_changes_at_idx ON credential_changes (at);
      COMMENT ON TABLE credential_changes IS 'what replicas must forget; read by transaction, since a lower seq can commit after a higher one';
      COMMENT ON COLUMN credential_changes.credential_id IS 'null: anything may have changed';
      ${RECORD_EACH_CHANGE}
      ${createUpdateTriggers('{last_used_at,last_used_for}')}
      ${KEY_TABLES.map(
        (table) => `
      CREATE TRIGGER ${table}_record_delete AFTER DELETE ON ${table} FOR EACH ROW
        EXECUTE FUNCTION record_credential_change();
      CREATE TRIGGER ${table}_record_truncate AFTER TRUNCATE ON ${table} FOR EACH STATEMENT
        EXECUTE FUNCTION record_credential_change();`,
      ).join('')}
    `,
    down: `
      ${KEY_TRIGGERS.map(({ table, name }) => `DROP TRIGGER ${name} ON ${table};`).join('\n')}
      DROP FUNCTION record_credential_change();
      DROP TABLE credential_changes;
    `,
  }),

  /**
   * Makes the feed of changed keys fit for cursors that are snapshots, and adds the leases of live replicas
   * (docs/decisions/0033). Replicas of the previous version ignore the additions, and the trigger records their purges
   * too.
   */
  defineMigration('WidenCredentialChanges1763683900000', {
    up: (schema) => `
      ALTER TABLE credential_changes ADD COLUMN kind text;
      COMMENT ON COLUMN credential_changes.kind IS 'node, app; null: anything may have changed';

      CREATE TABLE credential_change_purges (
        is_only_row boolean NOT NULL DEFAULT true,
        purged      xid8    NOT NULL,
        CONSTRAINT credential_change_purges_pkey PRIMARY KEY (is_only_row),
        CONSTRAINT credential_change_purges_only_row_check CHECK (is_only_row)
      );
      COMMENT ON COLUMN credential_change_purges.purged IS 'the highest transaction that credential_changes no longer has';
      INSERT INTO credential_change_purges (purged) VALUES ('0');

      CREATE TABLE replica_leases (
        id       uuid        NOT NULL,
        lease_ms integer     NOT NULL,
        seen_at  timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT replica_leases_pkey PRIMARY KEY (id)
      );
      COMMENT ON TABLE replica_leases IS 'how long each live process may answer from its cache; revoking calls wait for the longest';
      COMMENT ON COLUMN replica_leases.seen_at IS 'a process stops using its cache half a minute after it, and counts as gone after a minute';
      ${recordChanges(schema)}
      ${recordPurges(schema, HIGHEST_GONE)}
      ${createTriggers([PURGE_TRIGGER], 'record_credential_change_purge')}
      ${setKeyTriggers('ENABLE ALWAYS')}
    `,
    down: `
      ${setKeyTriggers('ENABLE')}
      ${dropTriggers([PURGE_TRIGGER])}
      DROP FUNCTION record_credential_change_purge();
      ${RECORD_EACH_CHANGE}
      DROP TABLE replica_leases;
      DROP TABLE credential_change_purges;
      ALTER TABLE credential_changes DROP COLUMN kind;
    `,
  }),

  /**
   * The feed of changes also records ended sessions and changed users, for the verifiers that other services embed
   * (docs/decisions/0044). They find these by polling: a NOTIFY takes a lock of the whole cluster at each commit, which
   * logouts would queue for.
   */
  defineMigration('RecordSessionChanges1763684200000', {
    up: (schema) => `
      ${recordChanges(schema, 'session')}
      ${createTriggers(SESSION_AND_USER_TRIGGERS, 'record_credential_change')}
      CREATE INDEX credential_changes_session_at_idx ON credential_changes (at) WHERE kind = 'session';
      COMMENT ON COLUMN credential_changes.kind IS 'node, app, session, user; null: anything may have changed';
    `,
    down: (schema) => `
      ${dropTriggers(SESSION_AND_USER_TRIGGERS)}
      DROP INDEX credential_changes_session_at_idx;
      DELETE FROM credential_changes WHERE kind IN ('session', 'user');
      ${recordChanges(schema)}
    `,
  }),

  /**
   * A dump of another cluster brings transaction ids that this one has not assigned, as rows of credential_changes and as the
   * mark of their purge. They say nothing about this cluster, and must not hide the mark of its own purges.
   */
  defineMigration('IgnoreRestoredPurges1763772000000', {
    // What was purged under such a mark is not known: older cursors are reset once.
    up: (schema) => `
      ${recordPurges(schema, HIGHEST_OWN)}
      UPDATE credential_change_purges SET purged = pg_current_xact_id() WHERE NOT ${buildIsOwn('purged')};
    `,
    down: (schema) => recordPurges(schema, HIGHEST_GONE),
  }),
];
