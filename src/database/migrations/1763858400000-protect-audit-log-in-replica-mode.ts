import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * The audit log refuses changes under `session_replication_role = replica` too, on which restores and logical replication
 * depend for rows that they insert only. A new partition copies the state of the trigger for rows.
 */
export class ProtectAuditLogInReplicaMode1763858400000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await setState(runner, 'ENABLE ALWAYS');
  }

  async down(runner: QueryRunner): Promise<void> {
    await setState(runner, 'ENABLE');
  }
}

async function setState(runner: QueryRunner, state: 'ENABLE' | 'ENABLE ALWAYS'): Promise<void> {
  await runner.query(`
    ALTER TABLE audit_events ${state} TRIGGER audit_events_no_change;
    ALTER TABLE audit_events ${state} TRIGGER audit_events_no_truncate;
    ALTER TABLE audit_seals ${state} TRIGGER audit_seals_no_change;
    DO $$
    DECLARE
      month regclass;
    BEGIN
      FOR month IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'audit_events'::regclass LOOP
        EXECUTE format('ALTER TABLE %s ${state} TRIGGER audit_events_no_truncate', month);
      END LOOP;
    END $$;
    CREATE OR REPLACE FUNCTION audit_events_add_partition(name text, bounds text) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
      EXECUTE format('CREATE TABLE %I PARTITION OF audit_events %s', name, bounds);
      EXECUTE format('CREATE TRIGGER audit_events_no_truncate BEFORE TRUNCATE ON %I
                      EXECUTE FUNCTION audit_events_refuse_change()', name);
      EXECUTE format('ALTER TABLE %I ${state} TRIGGER audit_events_no_truncate', name);
    END $$;
  `);
}
