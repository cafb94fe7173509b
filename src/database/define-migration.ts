import type { MigrationInterface, QueryRunner } from 'typeorm';
import { wasMadeByFormerMigrations } from './former-migrations.js';

interface MigrationSql {
  /**
   * @param schema the name of the schema, quoted. Functions of triggers write it before their tables, because a restore and the
   * apply worker of logical replication run them with an empty search path.
   */
  readonly up: string | ((schema: string) => string);
  readonly down: string;
  /** The tables of version 0.1.0, which a database of that version has already. */
  readonly isInitial?: boolean;
}

/**
 * Defines a migration that consists of SQL. One that was delivered never changes: databases have run it.
 * @param name ends with a timestamp in milliseconds, by which TypeORM orders migrations
 */
export function defineMigration(name: string, { up, down, isInitial = false }: MigrationSql) {
  class Migration implements MigrationInterface {
    async up(runner: QueryRunner): Promise<void> {
      if (isInitial && (await wasAdopted(runner))) return;
      const [row] = (await runner.query('SELECT quote_ident(current_schema()) AS schema')) as { schema: string }[];
      await runner.query(typeof up === 'string' ? up : up(row?.schema ?? 'public'));
    }

    async down(runner: QueryRunner): Promise<void> {
      if (isInitial && (await wasAdopted(runner)))
        throw new Error('Version 0.1.0 made these tables: nothing to revert.');
      await runner.query(down);
    }
  }
  return Object.defineProperty(Migration, 'name', { value: name });
}

async function wasAdopted(runner: QueryRunner): Promise<boolean> {
  const applied = (await runner.query('SELECT name FROM migrations')) as { name: string }[];
  return wasMadeByFormerMigrations(applied.map(({ name }) => name));
}

/**
 * Creates triggers that fire under `session_replication_role = replica` too.
 * @param triggers each without CREATE TRIGGER and its function: `NAME AFTER … ON TABLE …`
 */
export function createTriggers(functionName: string, triggers: readonly string[]): string {
  const statements = triggers.map((trigger) => {
    const [, name, table] = /^(\w+) [A-Z ]+ ON (\w+)/.exec(trigger) ?? [];
    if (name === undefined || table === undefined) throw new Error(`This is not a trigger: ${trigger}`);
    return `CREATE TRIGGER ${trigger} EXECUTE FUNCTION ${functionName}(); ALTER TABLE ${table} ENABLE ALWAYS TRIGGER ${name};`;
  });
  return statements.join('\n');
}

/**
 * Creates an index for searches. Where the role may not create pg_trgm, or the server does not have it, searches read the
 * table; the owner of the tables may create the extension and the indexes later (docs/operations/users.md).
 */
export function createSearchIndex(name: string, table: string, text: string): string {
  return `
    DO $$
    DECLARE
      home text;
    BEGIN
      CREATE EXTENSION IF NOT EXISTS pg_trgm;
      SELECT quote_ident(nspname) INTO home FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
        WHERE extname = 'pg_trgm';
      EXECUTE format('CREATE INDEX ${name} ON ${table} USING gin (%s %s.gin_trgm_ops)', $text$${text}$text$, home);
    EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_file THEN
      RAISE NOTICE 'Searches will read the whole table: %', SQLERRM;
    END $$;`;
}
