import type { QueryRunner } from 'typeorm';

export const READ_SCHEMA = 'SELECT quote_ident(current_schema()) AS schema';

/**
 * Functions of triggers qualify their tables with the schema, because restores and logical replication run them with an
 * empty search path.
 * @returns the quoted name of the schema
 */
export async function readSchema(runner: QueryRunner): Promise<string> {
  const [{ schema }] = (await runner.query(READ_SCHEMA)) as [{ schema: string }];
  return schema;
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
