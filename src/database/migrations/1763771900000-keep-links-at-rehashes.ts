import type { MigrationInterface, QueryRunner } from 'typeorm';

const REASONS =
  'logout, owner, password_changed, password_reset, second_factor_added, reuse, admin, disabled or session_limit';

/**
 * One-time tokens are voided by a change of the password, not by a rehash at a login (docs/decisions/0048): statements that
 * set a password move `password_changed_at`. No released version changes the password of an account without moving it. The
 * lock of `users` lasts milliseconds; the index is built over one row for each authenticator app.
 */
export class KeepLinksAtRehashes1763771900000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE INDEX totp_factors_key_mark_idx ON totp_factors (key_mark);
      CREATE OR REPLACE TRIGGER users_void_one_time_tokens AFTER UPDATE ON users FOR EACH ROW
        WHEN (OLD.password_changed_at IS DISTINCT FROM NEW.password_changed_at OR (OLD.is_active AND NOT NEW.is_active))
        EXECUTE FUNCTION void_one_time_tokens();
      COMMENT ON COLUMN sessions.end_reason IS '${REASONS}';
      COMMENT ON COLUMN audit_events.actor_door IS
        'user, app, node, admin; open: the caller is unknown; cli: the command line; service: the service itself';
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`
      COMMENT ON COLUMN audit_events.actor_door IS 'user, app, node, admin; open: the caller is unknown; cli: the command line';
      COMMENT ON COLUMN sessions.end_reason IS 'logout, owner, password_changed, reuse, admin, disabled or session_limit';
      DROP INDEX totp_factors_key_mark_idx;
      CREATE OR REPLACE TRIGGER users_void_one_time_tokens AFTER UPDATE ON users FOR EACH ROW
        WHEN (OLD.password_hash IS DISTINCT FROM NEW.password_hash OR (OLD.is_active AND NOT NEW.is_active))
        EXECUTE FUNCTION void_one_time_tokens();
    `);
  }
}
