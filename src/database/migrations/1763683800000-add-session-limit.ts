import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * For the session limit, and for detecting a refresh that is repeated from another network. Nullable: no row is
 * rewritten.
 */
export class AddSessionLimit1763683800000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      ALTER TABLE sessions
        ADD COLUMN rotated_from          text,
        ADD COLUMN elsewhere_generation  integer;
      CREATE INDEX sessions_not_ended_idx ON sessions (user_id, id) WHERE ended_at IS NULL;
      COMMENT ON COLUMN sessions.rotated_from IS 'network that the last rotation was requested from: an IPv4 address, or an IPv6 /64';
      COMMENT ON COLUMN sessions.elsewhere_generation IS 'generation whose repeat from another network is in the audit log: one row a rotation';
      COMMENT ON COLUMN sessions.end_reason IS 'logout, reuse, admin, disabled or session_limit';
      COMMENT ON COLUMN sessions.rotated_at IS 'start of the refresh grace: the rotation, or the moment at which a slow commit of it became visible';
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`
      COMMENT ON COLUMN sessions.rotated_at IS NULL;
      COMMENT ON COLUMN sessions.end_reason IS 'logout, reuse, admin or disabled';
      DROP INDEX sessions_not_ended_idx;
      ALTER TABLE sessions DROP COLUMN rotated_from, DROP COLUMN elsewhere_generation;
    `);
  }
}
