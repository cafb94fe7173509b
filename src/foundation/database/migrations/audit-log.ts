// The audit log: its partitions, and the functions that create and drop them.

import { SqlMigration } from '../sql-migration.js';

/**
 * The audit log is append-only, and partitioned by month so that old months are dropped as a whole; its triggers also
 * fire in replica mode, in which restores and logical replication write. The service may only INSERT and SELECT:
 * functions with the owner's privileges do the rest, and check that no caller drops rows before their retention ends.
 */
export class CreateAuditLog1795651200009 extends SqlMigration {
  readonly create = (schema: string) => `
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
      recorded_at timestamptz NOT NULL DEFAULT now(),
      CONSTRAINT audit_events_pkey PRIMARY KEY (time, id)
    ) PARTITION BY RANGE (time);
    CREATE INDEX audit_events_actor_id_idx ON audit_events (actor_id, time, id) WHERE actor_id IS NOT NULL;
    CREATE INDEX audit_events_actor_door_idx ON audit_events (actor_door, time, id) WHERE actor_id IS NULL;
    CREATE INDEX audit_events_operator_idx ON audit_events ((details ->> 'operator'), time, id) WHERE actor_door = 'admin';
    CREATE INDEX audit_events_subject_idx ON audit_events (subject, time, id);
    CREATE INDEX audit_events_event_idx ON audit_events (event, time, id);
    CREATE INDEX audit_events_xid_idx ON audit_events (epoch, xid, time, id);
    COMMENT ON TABLE audit_events IS 'who did what; append-only: old months are dropped as a whole';
    COMMENT ON COLUMN audit_events.actor_door IS
      'user, app, node, admin; open: the caller is unknown; cli: the command line; service: the service itself';
    COMMENT ON COLUMN audit_events.subject IS 'id of the user, node or other resource that the act was about; a name, a network, or unknown:… where there is no id';
    COMMENT ON COLUMN audit_events.count IS 'how many of what happened: refusals of a window, ended sessions';
    COMMENT ON COLUMN audit_events.details IS 'never a secret, a digest or an e-mail address';
    COMMENT ON COLUMN audit_events.epoch IS 'raised when transaction ids start again, as after a restore from a dump';
    COMMENT ON COLUMN audit_events.xid IS 'the transaction that recorded the row';
    COMMENT ON COLUMN audit_events.recorded_at IS 'by the clock of PostgreSQL; time is by the clock of the replica';

    CREATE FUNCTION audit_events_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      RAISE EXCEPTION 'audit_events is append-only' USING ERRCODE = 'insufficient_privilege';
    END $$;
    CREATE TRIGGER audit_events_no_change BEFORE UPDATE OR DELETE ON audit_events FOR EACH ROW
      EXECUTE FUNCTION audit_events_refuse_change();
    CREATE TRIGGER audit_events_no_truncate BEFORE TRUNCATE ON audit_events
      EXECUTE FUNCTION audit_events_refuse_change();
    ALTER TABLE audit_events
      ENABLE ALWAYS TRIGGER audit_events_no_change,
      ENABLE ALWAYS TRIGGER audit_events_no_truncate;

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
      FROM generate_series(0, 2) AS n;

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

    -- A row of a month without a partition is in the default partition, and PostgreSQL refuses to create the month's
    -- partition while it is. The function detaches the default partition, creates the missing ones (at most twelve a
    -- call), and inserts the rows again.
    CREATE FUNCTION audit_events_make_months(ahead integer) RETURNS text[] LANGUAGE plpgsql
      SECURITY DEFINER SET search_path = ${schema}, pg_temp AS $$
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
    END $$;

    CREATE FUNCTION audit_events_months() RETURNS TABLE (name text, starts timestamptz) LANGUAGE sql STABLE AS $$
      SELECT relname::text, make_timestamptz(substr(relname, 14, 4)::integer, substr(relname, 19, 2)::integer, 1, 0, 0, 0, 'UTC')
      FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
      WHERE inhparent = 'audit_events'::regclass AND relname ~ '^audit_events_[0-9]{4}_[0-9]{2}$'
    $$;

    -- Drops the oldest month whose retention has ended by the clock of PostgreSQL. A month with a row that was recorded
    -- since then stays, because a replica with a slow clock dated the row.
    CREATE FUNCTION audit_events_drop_month(keep_days integer) RETURNS text LANGUAGE plpgsql
      SECURITY DEFINER SET search_path = ${schema}, pg_temp AS $$
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
    END $$;

    REVOKE ALL ON FUNCTION audit_events_make_months(integer), audit_events_drop_month(integer) FROM PUBLIC;
  `;

  readonly drop = `
    DROP TABLE audit_settings, audit_events;
    DROP FUNCTION audit_events_make_months(integer), audit_events_drop_month(integer), audit_events_months(),
      audit_events_add_month(timestamp), audit_events_add_partition(text, text), audit_events_refuse_change();
  `;
}
