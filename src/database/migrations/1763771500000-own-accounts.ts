import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * For what users do to their own accounts (docs/decisions/0050): when a password was set, and where a session was begun.
 * Nullable columns: no row is rewritten, and the lock of each table lasts milliseconds. Old replicas leave them null.
 */
export class OwnAccounts1763771500000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    // Milliseconds, as the service reads it: it compares the value for equality.
    await runner.query(`
      ALTER TABLE users ADD COLUMN password_changed_at timestamptz(3);
      COMMENT ON COLUMN users.password_changed_at IS
        'when the password was set, and later at each change; not at a rehash. Null: before this column existed, or imported';
      ALTER TABLE sessions ADD COLUMN created_from text, ADD COLUMN user_agent text;
      COMMENT ON COLUMN sessions.created_from IS 'network of the login: an IPv4 address, or an IPv6 /64';
      COMMENT ON COLUMN sessions.user_agent IS 'User-Agent of the login: printable ASCII, at most 200 characters';
      COMMENT ON COLUMN sessions.end_reason IS 'logout, owner, password_changed, reuse, admin, disabled or session_limit';
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`
      COMMENT ON COLUMN sessions.end_reason IS 'logout, reuse, admin, disabled or session_limit';
      ALTER TABLE sessions DROP COLUMN created_from, DROP COLUMN user_agent;
      ALTER TABLE users DROP COLUMN password_changed_at;
    `);
  }
}
