import type { MigrationInterface, QueryRunner } from 'typeorm';

/** The id that a caller chose for its request stands beside ours. In audit_events it is one of the details. */
export class AddCallerRequestId1763683750000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      ALTER TABLE failed_logins ADD COLUMN caller_request_id text;
      COMMENT ON COLUMN failed_logins.caller_request_id IS 'X-Request-Id as the caller sent it with the first failure';
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE failed_logins DROP COLUMN caller_request_id');
  }
}
