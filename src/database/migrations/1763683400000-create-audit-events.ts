import type { MigrationInterface, QueryRunner } from 'typeorm';

const MONTHS_AT_ONCE = 3;

/** The audit log, an append-only table partitioned by month, and the windows in which failed logins are counted. */
export class CreateAuditEvents1763683400000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE audit_events (
        id         uuid        NOT NULL,
        time       timestamptz NOT NULL,
        event      text        NOT NULL,
        actor_door text        NOT NULL,
        actor_id   text,
        subject    text,
        request_id text,
        address    text,
        count      integer     NOT NULL,
        details    jsonb       NOT NULL,
        CONSTRAINT audit_events_pkey PRIMARY KEY (time, id)
      ) PARTITION BY RANGE (time);
      CREATE INDEX audit_events_actor_id_idx ON audit_events (actor_id, time, id) WHERE actor_id IS NOT NULL;
      CREATE INDEX audit_events_actor_door_idx ON audit_events (actor_door, time, id) WHERE actor_id IS NULL;
      CREATE INDEX audit_events_subject_idx ON audit_events (subject, time, id);
      CREATE INDEX audit_events_event_idx ON audit_events (event, time, id);
      COMMENT ON TABLE audit_events IS 'who did what; append-only: old months are dropped as a whole';
      COMMENT ON COLUMN audit_events.actor_door IS 'user, app, node, admin; open: the caller is unknown; cli: the command line';
      COMMENT ON COLUMN audit_events.subject IS 'id of the user, node or app credential that the act was about';
      COMMENT ON COLUMN audit_events.count IS 'how many of what happened: failed logins, ended sessions';
      COMMENT ON COLUMN audit_events.details IS 'never a secret, a digest or an e-mail address';

      CREATE FUNCTION audit_events_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        RAISE EXCEPTION 'audit_events is append-only' USING ERRCODE = 'insufficient_privilege';
      END $$;
      CREATE TRIGGER audit_events_no_change BEFORE UPDATE OR DELETE ON audit_events
        FOR EACH ROW EXECUTE FUNCTION audit_events_refuse_change();
      CREATE TRIGGER audit_events_no_truncate BEFORE TRUNCATE ON audit_events
        EXECUTE FUNCTION audit_events_refuse_change();

      -- A partition inherits the trigger for rows, and not the one for TRUNCATE.
      CREATE FUNCTION audit_events_add_partition(name text, bounds text) RETURNS void LANGUAGE plpgsql AS $$
      BEGIN
        EXECUTE format('CREATE TABLE %I PARTITION OF audit_events %s', name, bounds);
        EXECUTE format('CREATE TRIGGER audit_events_no_truncate BEFORE TRUNCATE ON %I
                        EXECUTE FUNCTION audit_events_refuse_change()', name);
      END $$;
      CREATE FUNCTION audit_events_add_month(month timestamp) RETURNS void LANGUAGE sql AS $$
        SELECT audit_events_add_partition(
          to_char(month, '"audit_events_"YYYY_MM'),
          format('FOR VALUES FROM (%L) TO (%L)', month AT TIME ZONE 'UTC', (month + interval '1 month') AT TIME ZONE 'UTC'));
      $$;
      SELECT audit_events_add_partition('audit_events_default', 'DEFAULT');
      SELECT audit_events_add_month(date_trunc('month', now() AT TIME ZONE 'UTC') + n * interval '1 month')
        FROM generate_series(0, ${MONTHS_AT_ONCE - 1}) AS n;

      CREATE TABLE failed_logins (
        account      bytea       NOT NULL,
        window_start timestamptz NOT NULL,
        id           uuid        NOT NULL,
        time         timestamptz NOT NULL,
        last_at      timestamptz NOT NULL,
        subject      text        NOT NULL,
        request_id   text,
        address      text,
        count        integer     NOT NULL,
        reasons      jsonb       NOT NULL,
        CONSTRAINT failed_logins_pkey PRIMARY KEY (account, window_start)
      );
      CREATE INDEX failed_logins_window_start_idx ON failed_logins (window_start);
      COMMENT ON TABLE failed_logins IS 'windows that are still open; closed ones move to audit_events';
      COMMENT ON COLUMN failed_logins.account IS 'HMAC of the canonical address, whether it has an account or not';
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`
      DROP TABLE failed_logins;
      DROP TABLE audit_events;
      DROP FUNCTION audit_events_add_month(timestamp);
      DROP FUNCTION audit_events_add_partition(text, text);
      DROP FUNCTION audit_events_refuse_change();
    `);
  }
}
