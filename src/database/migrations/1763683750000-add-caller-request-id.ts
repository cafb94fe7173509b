import type { MigrationInterface, QueryRunner } from 'typeorm';

const TABLES = ['failed_logins', 'refused_admin_keys'] as const;

/** The request id that the caller chose, in addition to ours. In audit_events it is one of the details. */
export class AddCallerRequestId1763683750000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    for (const table of TABLES) {
      await runner.query(`
        ALTER TABLE ${table} ADD COLUMN caller_request_id text;
        COMMENT ON COLUMN ${table}.caller_request_id IS 'X-Request-Id as the caller sent it with the first refusal';
      `);
    }
  }

  async down(runner: QueryRunner): Promise<void> {
    for (const table of TABLES) await runner.query(`ALTER TABLE ${table} DROP COLUMN caller_request_id`);
  }
}
