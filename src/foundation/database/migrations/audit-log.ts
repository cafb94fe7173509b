// The audit log: its partitions and functions, its seals, and the tables in which refusals are counted.

import { createTriggers, defineMigration } from '../define-migration.js';

const MONTHS_AT_ONCE = 3;
/** What the service does to the audit tables beyond INSERT and SELECT: they have the privileges of the owner. */
export const FUNCTIONS_FOR_THE_SERVICE = `audit_events_make_months(integer), audit_events_drop_month(integer),
      audit_seal_entries_prune(integer), audit_events_ensure_epoch()`;

/**
 * A table in which refusals are counted until their window of 15 minutes closes (audit/counted-refusals.ts).
 * @param isCallerIdLast the first two tables got this column later, and databases of version 0.1.0 have it there
 */
const createWindows = (table: string, account: string, subject?: string, isCallerIdLast = false): string => `
    CREATE TABLE ${table} (
      account      bytea       NOT NULL,
      window_start timestamptz NOT NULL,
      id           uuid        NOT NULL,
      time         timestamptz NOT NULL,
      last_at      timestamptz NOT NULL,
      subject      text        NOT NULL,
      request_id   text,
      ${isCallerIdLast ? '' : 'caller_request_id text,'}
      address      text,
      count        integer     NOT NULL,
      reasons      jsonb       NOT NULL,
      ${isCallerIdLast ? 'caller_request_id text,' : ''}
      CONSTRAINT ${table}_pkey PRIMARY KEY (account, window_start)
    );
    CREATE INDEX ${table}_window_start_idx ON ${table} (window_start);
    COMMENT ON TABLE ${table} IS 'windows that are still open; closed ones move to audit_events';
    COMMENT ON COLUMN ${table}.account IS '${account}';
    ${subject ? `COMMENT ON COLUMN ${table}.subject IS '${subject}';` : ''}
    ${isCallerIdLast ? `COMMENT ON COLUMN ${table}.caller_request_id IS 'X-Request-Id as the caller sent it with the first refusal';` : ''}`;

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

/**
 * The audit log is append-only, and partitioned by month: old months are dropped as a whole. Each row has the transaction
 * that recorded it, for the seals (docs/decisions/0043). Its triggers fire in replica mode too, on which restores and logical
 * replication depend for rows that they insert only. What the service does to the audit tables beyond INSERT and SELECT are
 * functions with the privileges of the owner. Each checks its arguments, so that a role that may call them cannot drop rows
 * before their retention ends.
 */
export const createAuditLog = defineMigration('CreateAuditLog1764000002000', {
  isInitial: true,
  up: (schema) => {
    const definer = `SECURITY DEFINER SET search_path = ${schema}, pg_temp`;
    return `
    CREATE TABLE audit_events (
      id          uuid        NOT NULL,
      time        timestamptz NOT NULL,
      event       text        NOT NULL,
      actor_door  text        NOT NULL,
      actor_id    text,
      subject     text,
      request_id  text,
      address     text,
      count       integer     NOT NULL,
      details     jsonb       NOT NULL,
      epoch       smallint    NOT NULL DEFAULT 0,
      xid         xid8        NOT NULL DEFAULT pg_current_xact_id(),
      recorded_at timestamptz DEFAULT now(),
      CONSTRAINT audit_events_pkey PRIMARY KEY (time, id)
    ) PARTITION BY RANGE (time);
    CREATE INDEX audit_events_actor_id_idx ON audit_events (actor_id, time, id) WHERE actor_id IS NOT NULL;
    CREATE INDEX audit_events_actor_door_idx ON audit_events (actor_door, time, id) WHERE actor_id IS NULL;
    CREATE INDEX audit_events_subject_idx ON audit_events (subject, time, id);
    CREATE INDEX audit_events_event_idx ON audit_events (event, time, id);
    CREATE INDEX audit_events_xid_idx ON audit_events (epoch, xid, time, id);
    COMMENT ON TABLE audit_events IS 'who did what; append-only: old months are dropped as a whole';
    COMMENT ON COLUMN audit_events.actor_door IS
      'user, app, node, admin; open: the caller is unknown; cli: the command line; service: the service itself';
    COMMENT ON COLUMN audit_events.subject IS 'id of the user, node or app credential that the act was about';
    COMMENT ON COLUMN audit_events.count IS 'how many of what happened: failed logins, ended sessions';
    COMMENT ON COLUMN audit_events.details IS 'never a secret, a digest or an e-mail address';
    COMMENT ON COLUMN audit_events.epoch IS 'raised when transaction ids start again, as after a restore from a dump';
    COMMENT ON COLUMN audit_events.xid IS 'the transaction that recorded the row; 0: recorded before seals existed';
    COMMENT ON COLUMN audit_events.recorded_at IS 'by the clock of PostgreSQL; time is by the clock of the replica';

    CREATE FUNCTION audit_events_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      RAISE EXCEPTION 'audit_events is append-only' USING ERRCODE = 'insufficient_privilege';
    END $$;
    ${createTriggers('audit_events_refuse_change', [
      'audit_events_no_change BEFORE UPDATE OR DELETE ON audit_events FOR EACH ROW',
      'audit_events_no_truncate BEFORE TRUNCATE ON audit_events',
    ])}

    -- A partition inherits the trigger for rows with its state, and not the one for TRUNCATE.
    CREATE FUNCTION audit_events_add_partition(name text, bounds text) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
      EXECUTE format('CREATE TABLE %I PARTITION OF audit_events %s', name, bounds);
      EXECUTE format('CREATE TRIGGER audit_events_no_truncate BEFORE TRUNCATE ON %I
                      EXECUTE FUNCTION audit_events_refuse_change()', name);
      EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER audit_events_no_truncate', name);
    END $$;
    CREATE FUNCTION audit_events_add_month(month timestamp) RETURNS void LANGUAGE sql AS $$
      SELECT audit_events_add_partition(
        to_char(month, '"audit_events_"YYYY_MM'),
        format('FOR VALUES FROM (%L) TO (%L)', month AT TIME ZONE 'UTC', (month + interval '1 month') AT TIME ZONE 'UTC'));
    $$;
    SELECT audit_events_add_partition('audit_events_default', 'DEFAULT');
    SELECT audit_events_add_month(date_trunc('month', now() AT TIME ZONE 'UTC') + n * interval '1 month')
      FROM generate_series(0, ${MONTHS_AT_ONCE - 1}) AS n;

    CREATE TABLE audit_seals (
      number  bigint CONSTRAINT audit_seals_pkey PRIMARY KEY,
      content text   NOT NULL,
      mac     bytea  NOT NULL
    );
    COMMENT ON TABLE audit_seals IS 'a chain: each seal covers the rows that were committed since the one before it';
    COMMENT ON COLUMN audit_seals.content IS 'JSON, authenticated byte by byte';
    COMMENT ON COLUMN audit_seals.mac IS 'HMAC-SHA-256 of the content, under AUDIT_SEAL_KEY';
    CREATE FUNCTION audit_seals_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      RAISE EXCEPTION 'audit_seals is append-only' USING ERRCODE = 'insufficient_privilege';
    END $$;
    ${createTriggers('audit_seals_refuse_change', [
      'audit_seals_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_seals',
    ])}

    CREATE TABLE audit_seal_entries (
      number  bigint CONSTRAINT audit_seal_entries_pkey PRIMARY KEY,
      latest  timestamptz NOT NULL,
      entries bytea       NOT NULL
    );
    ALTER TABLE audit_seal_entries ALTER COLUMN entries SET STORAGE EXTERNAL;
    CREATE INDEX audit_seal_entries_latest_idx ON audit_seal_entries (latest);
    COMMENT ON TABLE audit_seal_entries IS 'the rows of a seal; deleted once all of them were dropped with their months';
    COMMENT ON COLUMN audit_seal_entries.latest IS 'the latest time of its rows';
    COMMENT ON COLUMN audit_seal_entries.entries IS
      'for each row: id (16 bytes), time in microseconds since 1970 (8), HMAC-SHA-256 (32)';

    CREATE TABLE audit_settings (
      is_only              boolean CONSTRAINT audit_settings_pkey PRIMARY KEY DEFAULT true,
      epoch                smallint NOT NULL DEFAULT 0,
      retention_floor_days integer  NOT NULL DEFAULT 1,
      CONSTRAINT audit_settings_is_only_check CHECK (is_only),
      CONSTRAINT audit_settings_retention_floor_days_check CHECK (retention_floor_days >= 1)
    );
    INSERT INTO audit_settings DEFAULT VALUES;
    COMMENT ON TABLE audit_settings IS 'one row, which only the owner changes';
    COMMENT ON COLUMN audit_settings.epoch IS 'the epoch of new rows of audit_events';
    COMMENT ON COLUMN audit_settings.retention_floor_days IS
      'a month of the audit log is dropped this many days after its end, or later';
    ${makeMonths(definer)};
    ${dropMonth(definer)};
    ${pruneEntries(definer)};
    ${ensureEpoch(definer)};
    REVOKE ALL ON FUNCTION ${FUNCTIONS_FOR_THE_SERVICE} FROM PUBLIC;

    ${createWindows('failed_logins', 'HMAC of the canonical address, whether it has an account or not', undefined, true)}
    ${createWindows('failed_second_factors', 'HMAC of the id of the user, or of a network where the user is not known')}
    ${createWindows('refused_admin_keys', 'HMAC of the network that the wrong keys came from', undefined, true)}
    ${createWindows('refused_admin_scopes', 'HMAC of the operator id', 'id of the operator')}
    ${createWindows('refused_node_targets', 'HMAC of the node id', 'id of the node')}
    ${createWindows('refused_app_keys', 'HMAC of the id of the app credential', 'id of the app credential')}
  `;
  },
  down: `
    DROP TABLE failed_logins, failed_second_factors, refused_admin_keys, refused_admin_scopes, refused_node_targets,
      refused_app_keys, audit_settings, audit_seal_entries, audit_seals, audit_events;
    DROP FUNCTION ${FUNCTIONS_FOR_THE_SERVICE}, audit_events_months(), audit_events_add_month(timestamp),
      audit_events_add_partition(text, text), audit_events_refuse_change(), audit_seals_refuse_change();
  `,
});
