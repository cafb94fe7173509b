import type { MigrationInterface, QueryRunner } from 'typeorm';

const TRIGGERS = ['nodes', 'app_credentials'].flatMap((table) =>
  ['update', 'delete', 'truncate'].map((act) => ({ table, name: `${table}_record_${act}` })),
);

/**
 * Makes the feed of changed keys fit for cursors that are snapshots, and adds the leases of live replicas
 * (docs/decisions/0033). Replicas of the previous version ignore the additions, and the trigger records their purges
 * too.
 */
export class WidenCredentialChanges1763683900000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    // Qualified names: a restore and the apply worker of logical replication run triggers with an empty search path.
    const [{ schema }] = (await runner.query('SELECT quote_ident(current_schema()) AS schema')) as [{ schema: string }];
    await runner.query(`
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

      CREATE OR REPLACE FUNCTION record_credential_change() RETURNS trigger LANGUAGE plpgsql AS $$
      DECLARE
        max_changes CONSTANT integer := 1000;
        -- Undone with the rows when a savepoint is rolled back.
        recorded integer := COALESCE(NULLIF(current_setting('platform_auth.changes_recorded', true), ''), '0')::integer;
        changed uuid;
      BEGIN
        -- One transaction records at most max_changes rows: replicas clear their caches rather than read more.
        IF recorded <= max_changes THEN
          IF TG_LEVEL = 'ROW' AND recorded < max_changes THEN
            changed := OLD.id;
          END IF;
          INSERT INTO ${schema}.credential_changes (kind, credential_id)
          VALUES (CASE TG_TABLE_NAME WHEN 'nodes' THEN 'node' ELSE 'app' END, changed);
          PERFORM set_config('platform_auth.changes_recorded', (recorded + 1)::text, true);
          NOTIFY credential_changes;
        END IF;
        RETURN NULL;
      END $$;

      CREATE FUNCTION record_credential_change_purge() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        UPDATE ${schema}.credential_change_purges
        SET purged = GREATEST(purged, (SELECT xid FROM gone ORDER BY xid DESC LIMIT 1))
        WHERE EXISTS (SELECT FROM gone);
        RETURN NULL;
      END $$;
      CREATE TRIGGER credential_changes_record_purge AFTER DELETE ON credential_changes
        REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION record_credential_change_purge();
      ALTER TABLE credential_changes ENABLE ALWAYS TRIGGER credential_changes_record_purge;
    `);
    // Also under session_replication_role = replica.
    for (const { table, name } of TRIGGERS) await runner.query(`ALTER TABLE ${table} ENABLE ALWAYS TRIGGER ${name}`);
  }

  async down(runner: QueryRunner): Promise<void> {
    for (const { table, name } of TRIGGERS) await runner.query(`ALTER TABLE ${table} ENABLE TRIGGER ${name}`);
    await runner.query(`
      DROP TRIGGER credential_changes_record_purge ON credential_changes;
      DROP FUNCTION record_credential_change_purge();
      CREATE OR REPLACE FUNCTION record_credential_change() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF TG_LEVEL = 'ROW' THEN
          INSERT INTO credential_changes (credential_id) VALUES (OLD.id);
        ELSE
          INSERT INTO credential_changes (credential_id) VALUES (NULL);
        END IF;
        NOTIFY credential_changes;
        RETURN NULL;
      END $$;
      DROP TABLE replica_leases;
      DROP TABLE credential_change_purges;
      ALTER TABLE credential_changes DROP COLUMN kind;
    `);
  }
}
