import type { MigrationInterface, QueryRunner } from 'typeorm';

/** A rotation of the refresh token is not recorded: it leaves the access token valid. */
const SESSION_TRIGGERS = [
  `sessions_record_update AFTER UPDATE ON sessions FOR EACH ROW
     WHEN ((OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL)
       OR (OLD.user_id, OLD.absolute_expires_at) IS DISTINCT FROM (NEW.user_id, NEW.absolute_expires_at))`,
  // The purge deletes what ended or expired long ago: no verifier remembers it.
  `sessions_record_delete AFTER DELETE ON sessions FOR EACH ROW
     WHEN (OLD.ended_at IS NULL AND OLD.expires_at > now())`,
  `sessions_record_truncate AFTER TRUNCATE ON sessions FOR EACH STATEMENT`,
];
const USER_TRIGGERS = [
  `users_record_update AFTER UPDATE ON users FOR EACH ROW
     WHEN ((OLD.is_active, OLD.email) IS DISTINCT FROM (NEW.is_active, NEW.email))`,
  `users_record_delete AFTER DELETE ON users FOR EACH ROW`,
  `users_record_truncate AFTER TRUNCATE ON users FOR EACH STATEMENT`,
];
const TRIGGERS = [...SESSION_TRIGGERS, ...USER_TRIGGERS];

/**
 * The feed of changes also records ended sessions and changed users, for the verifiers that other services embed
 * (docs/decisions/0044). They find these by polling: a NOTIFY takes a lock of the whole cluster at each commit, which
 * logouts would queue for.
 */
export class RecordSessionChanges1763684200000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(recordChange(await readSchema(runner), 'session'));
    for (const trigger of TRIGGERS) {
      const [name, table] = namesOf(trigger);
      await runner.query(`CREATE TRIGGER ${trigger} EXECUTE FUNCTION record_credential_change()`);
      await runner.query(`ALTER TABLE ${table} ENABLE ALWAYS TRIGGER ${name}`);
    }
    await runner.query(`
      CREATE INDEX credential_changes_session_at_idx ON credential_changes (at) WHERE kind = 'session';
      COMMENT ON COLUMN credential_changes.kind IS 'node, app, session, user; null: anything may have changed';
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    for (const trigger of TRIGGERS) {
      const [name, table] = namesOf(trigger);
      await runner.query(`DROP TRIGGER ${name} ON ${table}`);
    }
    await runner.query('DROP INDEX credential_changes_session_at_idx');
    await runner.query(`DELETE FROM credential_changes WHERE kind IN ('session', 'user')`);
    await runner.query(recordChange(await readSchema(runner)));
  }
}

function namesOf(trigger: string): [name: string, table: string] {
  const [, name = '', table = ''] = /^(\w+) AFTER \w+ ON (\w+)/.exec(trigger) ?? [];
  return [name, table];
}

/** Qualified names: a restore and the apply worker of logical replication run triggers with an empty search path. */
async function readSchema(runner: QueryRunner): Promise<string> {
  const [row] = (await runner.query('SELECT quote_ident(current_schema()) AS schema')) as { schema: string }[];
  return row?.schema ?? 'public';
}

/** @param silentKind changes of this kind notify no replica */
function recordChange(schema: string, silentKind = ''): string {
  return `
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
    END $$`;
}
