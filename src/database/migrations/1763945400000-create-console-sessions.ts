import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Sessions end with their operator. At most a few hundred rows: a login deletes the ones that have ended. */
export class CreateConsoleSessions1763945400000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE console_sessions (
        digest bytea PRIMARY KEY,
        operator_id uuid REFERENCES operators ON DELETE CASCADE,
        key_digest bytea NOT NULL,
        created_at timestamptz NOT NULL,
        seen_at timestamptz NOT NULL,
        sent_forms uuid[] NOT NULL DEFAULT '{}'
      );
      COMMENT ON COLUMN console_sessions.operator_id IS 'null for the root key';
      COMMENT ON COLUMN console_sessions.key_digest IS 'of the key with which the session began';
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE console_sessions');
  }
}
