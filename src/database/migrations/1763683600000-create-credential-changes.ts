import type { MigrationInterface, QueryRunner } from 'typeorm';

const TABLES = ['nodes', 'app_credentials'] as const;

/**
 * The feed of changed keys for replicas (docs/decisions/0033). Triggers write it, so that changes by psql are recorded
 * too.
 */
export class CreateCredentialChanges1763683600000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
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

      CREATE FUNCTION record_credential_change() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF TG_LEVEL = 'ROW' THEN
          INSERT INTO credential_changes (credential_id) VALUES (OLD.id);
        ELSE
          INSERT INTO credential_changes (credential_id) VALUES (NULL);
        END IF;
        NOTIFY credential_changes;
        RETURN NULL;
      END $$;
    `);
    for (const table of TABLES) {
      // The use of a key does not evict it from caches.
      await runner.query(`
        CREATE TRIGGER ${table}_record_update AFTER UPDATE ON ${table} FOR EACH ROW
          WHEN ((to_jsonb(OLD) - '{last_used_at,last_used_for}'::text[])
            IS DISTINCT FROM (to_jsonb(NEW) - '{last_used_at,last_used_for}'::text[]))
          EXECUTE FUNCTION record_credential_change();
        CREATE TRIGGER ${table}_record_delete AFTER DELETE ON ${table} FOR EACH ROW
          EXECUTE FUNCTION record_credential_change();
        CREATE TRIGGER ${table}_record_truncate AFTER TRUNCATE ON ${table} FOR EACH STATEMENT
          EXECUTE FUNCTION record_credential_change();
      `);
    }
  }

  async down(runner: QueryRunner): Promise<void> {
    for (const table of TABLES) {
      for (const act of ['update', 'delete', 'truncate']) {
        await runner.query(`DROP TRIGGER ${table}_record_${act} ON ${table}`);
      }
    }
    await runner.query('DROP FUNCTION record_credential_change(); DROP TABLE credential_changes;');
  }
}
