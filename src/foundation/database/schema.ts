import type { QueryRunner } from 'typeorm';

export const READ_SCHEMA = 'SELECT quote_ident(current_schema()) AS schema';

/**
 * Functions of triggers write it before their tables, because a restore and the apply worker of logical replication run them
 * with an empty search path.
 * @returns the name of the schema, quoted
 */
export async function readSchema(runner: QueryRunner): Promise<string> {
  const [{ schema }] = (await runner.query(READ_SCHEMA)) as [{ schema: string }];
  return schema;
}
