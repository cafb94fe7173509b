import type { MigrationInterface, QueryRunner } from 'typeorm';

const HOLDERS = ['nodes', 'app_credentials', 'operators'];

/**
 * Tells whether all uses of a key so far were reported by services, so that such a report does not hide the first use that a
 * replica sees itself. Constant defaults: no table is rewritten.
 */
export class MarkReportedUses1763858500000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    for (const table of HOLDERS)
      await runner.query(`
        ALTER TABLE ${table} ADD COLUMN only_reported boolean NOT NULL DEFAULT false;
        COMMENT ON COLUMN ${table}.only_reported IS 'a service has reported a use, and no replica has seen one yet';
      `);
    await evictUnlessOnly(runner, '{last_used_at,last_used_for,only_reported}');
  }

  async down(runner: QueryRunner): Promise<void> {
    await evictUnlessOnly(runner, '{last_used_at,last_used_for}');
    for (const table of HOLDERS) await runner.query(`ALTER TABLE ${table} DROP COLUMN only_reported`);
  }
}

/** The use of a key does not evict it from caches. */
async function evictUnlessOnly(runner: QueryRunner, columns: string): Promise<void> {
  for (const table of ['nodes', 'app_credentials'])
    await runner.query(`
      CREATE OR REPLACE TRIGGER ${table}_record_update AFTER UPDATE ON ${table} FOR EACH ROW
        WHEN ((to_jsonb(OLD) - '${columns}'::text[]) IS DISTINCT FROM (to_jsonb(NEW) - '${columns}'::text[]))
        EXECUTE FUNCTION record_credential_change();
      ALTER TABLE ${table} ENABLE ALWAYS TRIGGER ${table}_record_update;
    `);
}
