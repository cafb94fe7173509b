import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Targets of nodes and scopes of app credentials. Null restricts nothing, so that no row is written. */
export class RestrictKeys1763945100000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      ALTER TABLE nodes ADD COLUMN targets text[];
      COMMENT ON COLUMN nodes.targets IS 'the only services at which the node is accepted; null: all';
      ALTER TABLE app_credentials ADD COLUMN scopes text[], ADD COLUMN scopes_changed_at timestamptz,
        ADD COLUMN scope_uses jsonb NOT NULL DEFAULT '{}';
      COMMENT ON COLUMN app_credentials.scopes IS 'the only scopes that the credential has; null: all';
      COMMENT ON COLUMN app_credentials.scope_uses IS 'when each scope was last asked for; does not evict the key from caches';
    `);
    await evictUnlessOnly(runner, '{last_used_at,last_used_for,only_reported,scope_uses}');
  }

  /** Every key is accepted for everything again: an operator who does not want that revokes the restricted ones first. */
  async down(runner: QueryRunner): Promise<void> {
    await evictUnlessOnly(runner, '{last_used_at,last_used_for,only_reported}');
    await runner.query(`
      ALTER TABLE nodes DROP COLUMN targets;
      ALTER TABLE app_credentials DROP COLUMN scopes, DROP COLUMN scopes_changed_at, DROP COLUMN scope_uses;
    `);
  }
}

async function evictUnlessOnly(runner: QueryRunner, columns: string): Promise<void> {
  await runner.query(`
    CREATE OR REPLACE TRIGGER app_credentials_record_update AFTER UPDATE ON app_credentials FOR EACH ROW
      WHEN ((to_jsonb(OLD) - '${columns}'::text[]) IS DISTINCT FROM (to_jsonb(NEW) - '${columns}'::text[]))
      EXECUTE FUNCTION record_credential_change();
    ALTER TABLE app_credentials ENABLE ALWAYS TRIGGER app_credentials_record_update;
  `);
}
