import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * @param schema the name of the schema, quoted. Functions of triggers write it before their tables, because a restore and the
 * apply worker of logical replication run them with an empty search path.
 */
type Sql = string | ((schema: string) => string);

/**
 * Defines a migration that consists of SQL. One that was delivered never changes: databases have run it.
 * @param name ends with a timestamp in milliseconds, by which TypeORM orders migrations
 */
export function defineMigration(name: string, { up, down }: { readonly up: Sql; readonly down: Sql }) {
  class Migration implements MigrationInterface {
    async up(runner: QueryRunner): Promise<void> {
      await run(runner, up);
    }

    async down(runner: QueryRunner): Promise<void> {
      await run(runner, down);
    }
  }
  return Object.defineProperty(Migration, 'name', { value: name });
}

async function run(runner: QueryRunner, sql: Sql): Promise<void> {
  if (typeof sql === 'string') {
    await runner.query(sql);
    return;
  }
  const [row] = (await runner.query('SELECT quote_ident(current_schema()) AS schema')) as { schema: string }[];
  await runner.query(sql(row?.schema ?? 'public'));
}

/**
 * Creates triggers that fire under `session_replication_role = replica` too.
 * @param triggers each without CREATE TRIGGER and its function: `NAME AFTER … ON TABLE …`
 */
export function createTriggers(triggers: readonly string[], functionName: string): string {
  const statements = triggers.map((trigger) => {
    const { name, table } = parseTrigger(trigger);
    return `CREATE TRIGGER ${trigger} EXECUTE FUNCTION ${functionName}(); ALTER TABLE ${table} ENABLE ALWAYS TRIGGER ${name};`;
  });
  return statements.join('\n');
}

export function dropTriggers(triggers: readonly string[]): string {
  return triggers
    .map(parseTrigger)
    .map(({ name, table }) => `DROP TRIGGER ${name} ON ${table};`)
    .join('\n');
}

function parseTrigger(trigger: string) {
  const [, name, table] = /^(\w+) AFTER \w+ ON (\w+)/.exec(trigger) ?? [];
  if (name === undefined || table === undefined) throw new Error(`This is not a trigger: ${trigger}`);
  return { name, table };
}
