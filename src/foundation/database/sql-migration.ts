import type { MigrationInterface, QueryRunner } from 'typeorm';

export const READ_SCHEMA = 'SELECT quote_ident(current_schema()) AS schema';

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
