import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * An operator may set an address that nobody has proven (docs/decisions/0048). A nullable column without a default: the lock of
 * `users` lasts milliseconds. An old replica that claims a mail of a new kind fails, and a new one sends it two minutes later.
 */
export class KeepFirstProofs1763947000000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      ALTER TABLE users ADD COLUMN first_proof_at timestamptz;
      COMMENT ON COLUMN users.first_proof_at IS
        'what email_verified_at was, or would have become, before an operator made the address unproven';
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`
      DELETE FROM mail_requests WHERE kind IN ('password_reset_notice', 'email_changed', 'email_set', 'factors_removed');
      ALTER TABLE users DROP COLUMN first_proof_at;
    `);
  }
}
