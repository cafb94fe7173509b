import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * The columns and tables of the seals (docs/decisions/0043): each audit row has the transaction that recorded it.
 * Existing rows count as recorded by transaction 0, and are not rewritten.
 */
export class SealAuditEvents1763684000000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      ALTER TABLE audit_events
        ADD COLUMN epoch       smallint    NOT NULL DEFAULT 0,
        ADD COLUMN xid         xid8        NOT NULL DEFAULT '0',
        ADD COLUMN recorded_at timestamptz;
      ALTER TABLE audit_events
        ALTER COLUMN xid         SET DEFAULT pg_current_xact_id(),
        ALTER COLUMN recorded_at SET DEFAULT now();
      CREATE INDEX audit_events_xid_idx ON audit_events (epoch, xid, time, id);
      COMMENT ON COLUMN audit_events.epoch IS 'raised when transaction ids start again, as after a restore from a dump';
      COMMENT ON COLUMN audit_events.xid IS 'the transaction that recorded the row; 0: recorded before seals existed';
      COMMENT ON COLUMN audit_events.recorded_at IS 'by the clock of PostgreSQL; time is by the clock of the replica';

      CREATE TABLE audit_seals (
        number  bigint NOT NULL,
        content text   NOT NULL,
        mac     bytea  NOT NULL,
        CONSTRAINT audit_seals_pkey PRIMARY KEY (number)
      );
      COMMENT ON TABLE audit_seals IS 'a chain: each seal covers the rows that were committed since the one before it';
      COMMENT ON COLUMN audit_seals.content IS 'JSON, authenticated byte by byte';
      COMMENT ON COLUMN audit_seals.mac IS 'HMAC-SHA-256 of the content, under AUDIT_SEAL_KEY';

      CREATE TABLE audit_seal_entries (
        number  bigint      NOT NULL,
        latest  timestamptz NOT NULL,
        entries bytea       NOT NULL,
        CONSTRAINT audit_seal_entries_pkey PRIMARY KEY (number)
      );
      ALTER TABLE audit_seal_entries ALTER COLUMN entries SET STORAGE EXTERNAL;
      CREATE INDEX audit_seal_entries_latest_idx ON audit_seal_entries (latest);
      COMMENT ON TABLE audit_seal_entries IS 'the rows of a seal; deleted once all of them were dropped with their months';
      COMMENT ON COLUMN audit_seal_entries.latest IS 'the latest time of its rows';
      COMMENT ON COLUMN audit_seal_entries.entries IS 'for each row: id (16 bytes), time in microseconds since 1970 (8), HMAC-SHA-256 (32)';

      CREATE FUNCTION audit_seals_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        RAISE EXCEPTION 'audit_seals is append-only' USING ERRCODE = 'insufficient_privilege';
      END $$;
      CREATE TRIGGER audit_seals_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_seals
        EXECUTE FUNCTION audit_seals_refuse_change();
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`
      DROP TABLE audit_seals, audit_seal_entries;
      DROP FUNCTION audit_seals_refuse_change();
      ALTER TABLE audit_events DROP COLUMN epoch, DROP COLUMN xid, DROP COLUMN recorded_at;
    `);
  }
}
