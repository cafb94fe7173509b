import type { MigrationInterface, QueryRunner } from 'typeorm';

export const READ_SCHEMA = 'SELECT quote_ident(current_schema()) AS schema';

/** A migration in SQL. */
export abstract class SqlMigration implements MigrationInterface {
  /**
   * @param schema its quoted name: functions of triggers qualify their tables, because restores and logical replication
   * run them with an empty search path
   */
  protected abstract readonly create: (schema: string) => string;
  protected abstract readonly drop: string;

  async up(runner: QueryRunner): Promise<void> {
    const [{ schema }] = (await runner.query(READ_SCHEMA)) as [{ schema: string }];
    await runner.query(this.create(schema));
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(this.drop);
  }
}

/** The columns of the use of a key, which changes no verdict. */
const USE_COLUMNS = [
  'last_used_at',
  'last_used_for',
  'previous_key_used_at',
  'previous_key_used_for',
  'has_only_reported_uses',
];

/**
 * Builds the triggers that publish every change of a table of keys but their use (migrations/change-feed.ts).
 * @param kind that of the changes, as in `cachedAs` of common/key-kinds.ts
 * @param ignored further columns on which no verdict depends
 */
export function buildKeyChangeTriggers(table: string, kind: string, ignored: readonly string[] = []): string {
  const strip = (row: string): string => `(to_jsonb(${row}) - '{${[...USE_COLUMNS, ...ignored].join(',')}}'::text[])`;
  const publish = `EXECUTE FUNCTION record_credential_change('${kind}')`;
  return `
    CREATE TRIGGER ${table}_record_update AFTER UPDATE ON ${table} FOR EACH ROW
      WHEN (${strip('OLD')} IS DISTINCT FROM ${strip('NEW')}) ${publish};
    CREATE TRIGGER ${table}_record_delete AFTER DELETE ON ${table} FOR EACH ROW ${publish};
    CREATE TRIGGER ${table}_record_truncate AFTER TRUNCATE ON ${table} ${publish};
    ALTER TABLE ${table}
      ENABLE ALWAYS TRIGGER ${table}_record_update,
      ENABLE ALWAYS TRIGGER ${table}_record_delete,
      ENABLE ALWAYS TRIGGER ${table}_record_truncate;`;
}
