import type { MigrationInterface, QueryRunner } from 'typeorm';

const TABLES = ['nodes', 'app_credentials'] as const;

/** The history of a key, for operators. Nullable columns without a default, so that no row is rewritten. */
export class AddKeyHistory1763683300000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    for (const table of TABLES) {
      await runner.query(`
        ALTER TABLE ${table}
          ADD COLUMN rotated_by_request text,
          ADD COLUMN overlap_ended_at   timestamptz,
          ADD COLUMN revoked_by_request text,
          ADD COLUMN last_used_for      text;
        COMMENT ON COLUMN ${table}.rotated_by_request IS 'id of the request that made the current key';
        COMMENT ON COLUMN ${table}.overlap_ended_at IS 'when the key before this one ended: at the first use of this one, or at its deadline';
        COMMENT ON COLUMN ${table}.revoked_by_request IS 'id of the request that revoked it';
        COMMENT ON COLUMN ${table}.last_used_for IS 'service that the key was last accepted for, when it was named';
      `);
    }
  }

  async down(runner: QueryRunner): Promise<void> {
    for (const table of TABLES) {
      await runner.query(`
        ALTER TABLE ${table}
          DROP COLUMN rotated_by_request, DROP COLUMN overlap_ended_at,
          DROP COLUMN revoked_by_request, DROP COLUMN last_used_for;
      `);
    }
  }
}
