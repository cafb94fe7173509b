// The seals of the audit log, which show a changed or deleted row (docs/decisions/0043).

import { SqlMigration } from '../sql-migration.js';

export class CreateAuditSeals1795651200010 extends SqlMigration {
  readonly create = (schema: string) => `
    CREATE TABLE audit_seals (
      number  bigint CONSTRAINT audit_seals_pkey PRIMARY KEY,
      content text   NOT NULL,
      mac     bytea  NOT NULL
    );
    COMMENT ON TABLE audit_seals IS 'a chain: each seal covers the rows that were committed since the one before it';
    COMMENT ON COLUMN audit_seals.content IS 'JSON, authenticated byte by byte';
    COMMENT ON COLUMN audit_seals.mac IS 'HMAC-SHA-256 of the content, under AUDIT_SEAL_KEY';
    CREATE INDEX audit_seals_records_idx ON audit_seals (number)
      WHERE content LIKE '%"dropped":"%' OR content LIKE '%"folded":{%';
    CREATE FUNCTION audit_seals_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF TG_OP = 'DELETE' AND current_setting('platform_auth.is_folding', true) = 'on' THEN
        RETURN NULL;
      END IF;
      RAISE EXCEPTION 'audit_seals is append-only' USING ERRCODE = 'insufficient_privilege';
    END $$;
    CREATE TRIGGER audit_seals_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_seals
      EXECUTE FUNCTION audit_seals_refuse_change();
    ALTER TABLE audit_seals ENABLE ALWAYS TRIGGER audit_seals_no_change;

    CREATE TABLE audit_seal_entries (
      number  bigint CONSTRAINT audit_seal_entries_pkey PRIMARY KEY,
      latest  timestamptz NOT NULL,
      entries bytea       NOT NULL
    );
    ALTER TABLE audit_seal_entries ALTER COLUMN entries SET STORAGE EXTERNAL;
    CREATE INDEX audit_seal_entries_latest_idx ON audit_seal_entries (latest);
    COMMENT ON TABLE audit_seal_entries IS
      'the rows of a seal; deleted once all of them were dropped with their months';
    COMMENT ON COLUMN audit_seal_entries.latest IS 'the latest time of its rows';
    COMMENT ON COLUMN audit_seal_entries.entries IS
      'for each row: id (16 bytes), time in microseconds since 1970 (8), HMAC-SHA-256 (32)';

    -- Deletes the entries of seals whose rows are all older than the oldest row that can exist.
    CREATE FUNCTION audit_seal_entries_prune(most integer) RETURNS integer LANGUAGE plpgsql
      SECURITY DEFINER SET search_path = ${schema}, pg_temp AS $$
    DECLARE
      oldest timestamptz;
      pruned integer;
    BEGIN
      SELECT LEAST((SELECT min(starts) FROM audit_events_months()), (SELECT min(time) FROM audit_events_default))
        INTO oldest;
      DELETE FROM audit_seal_entries WHERE number IN (
        SELECT number FROM audit_seal_entries WHERE latest < oldest ORDER BY latest LIMIT most);
      GET DIAGNOSTICS pruned = ROW_COUNT;
      RETURN pruned;
    END $$;

    -- Deletes the seals that the last seal folds. Refuses while one of them has a list of rows, which
    -- audit_seal_entries_prune keeps as long as the rows, or is younger than the minimum retention.
    CREATE FUNCTION audit_seals_fold() RETURNS integer LANGUAGE plpgsql
      SECURITY DEFINER SET search_path = ${schema}, pg_temp AS $$
    DECLARE
      last bigint;
      through bigint;
      folded integer;
    BEGIN
      SELECT number, (content::jsonb -> 'folded' ->> 'through')::bigint INTO last, through
        FROM audit_seals ORDER BY number DESC LIMIT 1;
      IF (through < last) IS NOT TRUE
        OR EXISTS (SELECT FROM audit_seal_entries WHERE number <= through)
        OR EXISTS (SELECT FROM audit_seals, audit_settings WHERE number <= through AND
          ((content::jsonb ->> 'at')::timestamptz < now() - make_interval(days => retention_floor_days)) IS NOT TRUE)
      THEN
        RAISE EXCEPTION 'the last seal folds nothing, or seals whose retention has not ended'
          USING ERRCODE = 'object_not_in_prerequisite_state';
      END IF;
      PERFORM set_config('platform_auth.is_folding', 'on', true);
      DELETE FROM audit_seals WHERE number <= through;
      GET DIAGNOSTICS folded = ROW_COUNT;
      PERFORM set_config('platform_auth.is_folding', 'off', true);
      RETURN folded;
    END $$;

    -- After a restore from a dump, transaction ids start again, below those of the last seal.
    CREATE FUNCTION audit_events_ensure_epoch() RETURNS smallint LANGUAGE plpgsql
      SECURITY DEFINER SET search_path = ${schema}, pg_temp AS $$
    DECLARE
      sealed jsonb;
      present smallint;
    BEGIN
      SELECT epoch INTO STRICT present FROM audit_settings;
      SELECT content::jsonb -> 'to' INTO sealed FROM audit_seals ORDER BY number DESC LIMIT 1;
      IF sealed IS NULL OR (sealed ->> 'epoch')::smallint < present OR
        pg_snapshot_xmax(pg_current_snapshot()) >= pg_snapshot_xmax((sealed ->> 'snapshot')::pg_snapshot)
      THEN
        RETURN present;
      END IF;
      UPDATE audit_settings SET epoch = present + 1 WHERE epoch = present;
      EXECUTE format('ALTER TABLE audit_events ALTER COLUMN epoch SET DEFAULT %s', present + 1);
      RETURN present + 1;
    END $$;

    REVOKE ALL ON FUNCTION audit_seal_entries_prune(integer), audit_seals_fold(), audit_events_ensure_epoch()
      FROM PUBLIC;
  `;

  readonly drop = `
    DROP TABLE audit_seal_entries, audit_seals;
    DROP FUNCTION audit_seal_entries_prune(integer), audit_seals_fold(), audit_events_ensure_epoch(),
      audit_seals_refuse_change();
  `;
}
