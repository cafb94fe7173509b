// Indexes for searches by a part of a name or an address.

import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Without the right to create pg_trgm, or on a server that lacks it, searches read the whole tables. The owner may
 * create the extension and the indexes later (docs/operations/users.md).
 */
export class IndexSearches1795651200015 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      DO $$
      DECLARE
        operators text;
      BEGIN
        CREATE EXTENSION IF NOT EXISTS pg_trgm;
        SELECT format('%I.gin_trgm_ops', nspname) INTO operators
          FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'pg_trgm';
        EXECUTE format('CREATE INDEX users_email_search_idx ON users USING gin (email %s)', operators);
        EXECUTE format($index$CREATE INDEX nodes_search_idx ON nodes USING gin (lower(room || '/' || name) %s)$index$, operators);
      EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_file THEN
        RAISE NOTICE 'Searches will read the whole tables: %', SQLERRM;
      END $$;
    `);
  }

  /** Keeps the extension, because other users of this database may need it. */
  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP INDEX IF EXISTS users_email_search_idx, nodes_search_idx');
  }
}
