import type { QueryRunner } from 'typeorm';

/**
 * Functions of triggers write it before their tables, because a restore and the apply worker of logical replication run them
 * with an empty search path.
 * @returns the name of the schema, quoted
 */
export async function readSchema(runner: QueryRunner): Promise<string> {
  const [{ schema }] = (await runner.query('SELECT quote_ident(current_schema()) AS schema')) as [{ schema: string }];
  return schema;
}
