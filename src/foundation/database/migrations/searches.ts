// Indexes for searches by a part of a name or an address.

import { SqlMigration } from '../sql-migration.js';

interface SearchIndex {
  readonly name: string;
  readonly on: string;
  /** An SQL expression. */
  readonly text: string;
}

/**
 * Without the right to create pg_trgm, or on a server that lacks it, searches read the whole tables. The owner may
 * create the extension and the indexes later (docs/operations/users.md).
 */
export function buildSearchIndexes(indexes: readonly SearchIndex[]): string {
  const statements = indexes.map(
    ({ name, on, text }) =>
      `EXECUTE format($index$CREATE INDEX ${name} ON ${on} USING gin (${text} %s)$index$, operators);`,
  );
  return `
    DO $$
    DECLARE
      operators text;
    BEGIN
      CREATE EXTENSION IF NOT EXISTS pg_trgm;
      SELECT format('%I.gin_trgm_ops', nspname) INTO operators
        FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'pg_trgm';
      ${statements.join('\n      ')}
    EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_file THEN
      RAISE NOTICE 'Searches will read the whole tables: %', SQLERRM;
    END $$;
  `;
}

export class IndexSearches1795651200015 extends SqlMigration {
  readonly create = () =>
    buildSearchIndexes([
      { name: 'users_email_search_idx', on: 'users', text: 'email' },
      { name: 'nodes_search_idx', on: 'nodes', text: `lower(room || '/' || name)` },
    ]);

  /** Keeps the extension, because other users of this database may need it. */
  readonly drop = 'DROP INDEX IF EXISTS users_email_search_idx, nodes_search_idx';
}
