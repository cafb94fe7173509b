import type { MigrationInterface, QueryRunner } from 'typeorm';

const FUNCTIONS = [
  'audit_events_make_months(integer)',
  'audit_events_drop_month(integer)',
  'audit_seal_entries_prune(integer)',
  'audit_events_ensure_epoch()',
];

/**
 * Functions with the privileges of the owner, for what the service does to the audit tables beyond INSERT and SELECT.
 * Each checks its arguments, so that a role that may call them cannot drop rows before their retention ends.
 */
export class AddAuditDefiners1763684050000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE audit_settings (
        is_only              boolean  NOT NULL DEFAULT true,
        epoch                smallint NOT NULL DEFAULT 0,
        retention_floor_days integer  NOT NULL DEFAULT 1,
        CONSTRAINT audit_settings_pkey PRIMARY KEY (is_only),
        CONSTRAINT audit_settings_is_only_check CHECK (is_only),
        CONSTRAINT audit_settings_retention_floor_days_check CHECK (retention_floor_days >= 1)
      );
      INSERT INTO audit_settings DEFAULT VALUES;
      COMMENT ON TABLE audit_settings IS 'one row, which only the owner changes';
      COMMENT ON COLUMN audit_settings.epoch IS 'the epoch of new rows of audit_events';
      COMMENT ON COLUMN audit_settings.retention_floor_days IS 'a month of the audit log is dropped this many days after its end, or later';
    `);
    const [row] = (await runner.query('SELECT quote_ident(current_schema()) AS schema')) as { schema: string }[];
    const definer = `SECURITY DEFINER SET search_path = ${row?.schema ?? 'public'}, pg_temp`;
    await runner.query(makeMonths(definer));
    await runner.query(dropMonth(definer));
    await runner.query(pruneEntries(definer));
    await runner.query(ensureEpoch(definer));
    for (const name of FUNCTIONS) await runner.query(`REVOKE ALL ON FUNCTION ${name} FROM PUBLIC`);
  }

  async down(runner: QueryRunner): Promise<void> {
    for (const name of FUNCTIONS) await runner.query(`DROP FUNCTION ${name}`);
    await runner.query(`DROP FUNCTION audit_events_months(); DROP TABLE audit_settings`);
  }
}

/**
 * Rows of a month without a partition are in the default partition, and PostgreSQL refuses to create the month's
 * partition while they are. The function detaches them, creates the partition and inserts them again; at most twelve
 * months a call.
 */
function makeMonths(definer: string): string {
  return `
    CREATE FUNCTION audit_events_make_months(ahead integer) RETURNS text[] LANGUAGE plpgsql ${definer} AS $$
    DECLARE
      current_month timestamp := date_trunc('month', now() AT TIME ZONE 'UTC');
      strays timestamp[];
      month timestamp;
      made text[] := '{}';
    BEGIN
      IF ahead IS NULL OR ahead NOT BETWEEN 0 AND 12 THEN
        RAISE EXCEPTION 'ahead must be from 0 to 12' USING ERRCODE = 'invalid_parameter_value';
      END IF;
      SELECT array_agg(found.month) INTO strays FROM (
        SELECT DISTINCT date_trunc('month', time AT TIME ZONE 'UTC') AS month FROM audit_events_default
        WHERE time >= '1900-01-01' AND time < '9999-01-01' ORDER BY 1 LIMIT 12) AS found;
      IF strays IS NOT NULL THEN
        ALTER TABLE audit_events DETACH PARTITION audit_events_default;
        ALTER TABLE audit_events_default RENAME TO audit_events_strays;
      END IF;
      FOR month IN
        SELECT current_month + n * interval '1 month' FROM generate_series(0, ahead) AS n
        UNION SELECT unnest(strays) ORDER BY 1
      LOOP
        CONTINUE WHEN to_regclass(to_char(month, '"audit_events_"YYYY_MM')) IS NOT NULL;
        PERFORM audit_events_add_month(month);
        made := made || to_char(month, '"audit_events_"YYYY_MM');
      END LOOP;
      IF strays IS NOT NULL THEN
        PERFORM audit_events_add_partition('audit_events_default', 'DEFAULT');
        INSERT INTO audit_events SELECT * FROM audit_events_strays;
        DROP TABLE audit_events_strays;
      END IF;
      RETURN made;
    END $$`;
}

/**
 * Drops one month a call: the oldest whose retention has ended by the clock of PostgreSQL. A month with a row that was
 * recorded since then stays, because a replica with a slow clock dated the row.
 */
function dropMonth(definer: string): string {
  return `
    CREATE FUNCTION audit_events_months() RETURNS TABLE (name text, starts timestamptz) LANGUAGE sql STABLE AS $$
      SELECT relname::text, make_timestamptz(substr(relname, 14, 4)::integer, substr(relname, 19, 2)::integer, 1, 0, 0, 0, 'UTC')
      FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
      WHERE inhparent = 'audit_events'::regclass AND relname ~ '^audit_events_[0-9]{4}_[0-9]{2}$'
    $$;
    CREATE FUNCTION audit_events_drop_month(keep_days integer) RETURNS text LANGUAGE plpgsql ${definer} AS $$
    DECLARE
      keep_from timestamptz;
      candidate text;
      is_recent boolean;
    BEGIN
      IF keep_days IS NULL OR keep_days < 1 THEN
        RAISE EXCEPTION 'keep_days must be at least 1' USING ERRCODE = 'invalid_parameter_value';
      END IF;
      SELECT now() - make_interval(days => GREATEST(keep_days, retention_floor_days)) INTO STRICT keep_from
        FROM audit_settings;
      FOR candidate IN
        SELECT name FROM audit_events_months()
        WHERE (starts AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC' <= keep_from ORDER BY starts
      LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE recorded_at > $1)', candidate) INTO is_recent USING keep_from;
        CONTINUE WHEN is_recent;
        EXECUTE format('DROP TABLE %I', candidate);
        RETURN candidate;
      END LOOP;
      RETURN NULL;
    END $$`;
}

/** Deletes the entries of seals whose rows are all older than the oldest row that can exist. */
function pruneEntries(definer: string): string {
  return `
    CREATE FUNCTION audit_seal_entries_prune(most integer) RETURNS integer LANGUAGE plpgsql ${definer} AS $$
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
    END $$`;
}

/** After a restore from a dump, transaction ids start again, below those of the last seal. */
function ensureEpoch(definer: string): string {
  return `
    CREATE FUNCTION audit_events_ensure_epoch() RETURNS smallint LANGUAGE plpgsql ${definer} AS $$
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
    END $$`;
}
