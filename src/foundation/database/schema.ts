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
