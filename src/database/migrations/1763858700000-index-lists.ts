import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Indexes for the filters of lists (docs/decisions/0052). Changes of accounts and nodes wait while they are built, logins
 * and validations do not. An operator may create the indexes before, CONCURRENTLY. Where the role may not create pg_trgm, or
 * the server does not have it, searches read the table; the operator may create the extension and the two indexes later.
 */
export class IndexLists1763858700000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE INDEX IF NOT EXISTS users_created_at_idx ON users (created_at);
      CREATE INDEX IF NOT EXISTS users_disabled_idx ON users (id) WHERE NOT is_active;
      CREATE INDEX IF NOT EXISTS users_unverified_idx ON users (id) WHERE email_verified_at IS NULL;
      DO $$
      DECLARE
        home text;
      BEGIN
        CREATE EXTENSION IF NOT EXISTS pg_trgm;
        SELECT quote_ident(nspname) INTO home FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
          WHERE extname = 'pg_trgm';
        EXECUTE format('CREATE INDEX IF NOT EXISTS users_email_search_idx ON users USING gin (email %s.gin_trgm_ops)', home);
        EXECUTE format('CREATE INDEX IF NOT EXISTS nodes_search_idx ON nodes
                        USING gin (lower(room || ''/'' || name) %s.gin_trgm_ops)', home);
      EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_file THEN
        RAISE NOTICE 'Searches will read the whole table: %', SQLERRM;
      END $$;
    `);
  }

  /** The extension stays: this database may use it for something else. */
  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`
      DROP INDEX IF EXISTS users_email_search_idx, nodes_search_idx;
      DROP INDEX users_created_at_idx, users_disabled_idx, users_unverified_idx;
    `);
  }
}
