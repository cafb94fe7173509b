import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * One table for everything that is throttled. Unlogged, because a count is not worth a write to the WAL at each
 * attempt: after a crash or a promotion the table is empty, and counting starts again. The fill factor leaves room in
 * each page for updates in place (HOT).
 *
 * `throttle_counters`, the table before it, stays: during a rolling update the old replicas still count in it. A later
 * release drops it.
 *
 * `refused_admin_keys` counts wrong admin keys as `failed_logins` counts wrong passwords. It is a table of its own
 * because old replicas would move its rows into the audit log as failed logins.
 */
export class CreateThrottleWindows1763683700000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE UNLOGGED TABLE throttle_windows (
        key             text        NOT NULL,
        points          integer     NOT NULL,
        window_start    timestamptz NOT NULL,
        window_end      timestamptz NOT NULL,
        lost            integer     NOT NULL,
        in_flight       integer     NOT NULL,
        in_flight_until timestamptz NOT NULL,
        granted         integer     NOT NULL,
        CONSTRAINT throttle_windows_pkey PRIMARY KEY (key)
      ) WITH (fillfactor = 70);
      CREATE INDEX throttle_windows_window_end_idx ON throttle_windows (window_end);
      COMMENT ON TABLE throttle_windows IS 'tries in the current windows, and the addresses that are known to accounts';
      COMMENT ON COLUMN throttle_windows.key IS 'name of the limit, and an HMAC of the account or network: reveals neither';
      COMMENT ON COLUMN throttle_windows.points IS 'the limit: lost + in_flight never exceed it';
      COMMENT ON COLUMN throttle_windows.window_start IS 'by the clock of this server, as all times of this table';
      COMMENT ON COLUMN throttle_windows.lost IS 'points of confirmed wrong guesses, or of counted calls';
      COMMENT ON COLUMN throttle_windows.in_flight IS 'points of guesses that are being verified, and may be refunded';
      COMMENT ON COLUMN throttle_windows.in_flight_until IS
        'when in_flight counts as 0, because a replica stopped between reserving and settling';
      COMMENT ON COLUMN throttle_windows.granted IS
        'points that the last reservation got; RETURNING cannot tell otherwise before PostgreSQL 18';

      CREATE TABLE refused_admin_keys (
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
        CONSTRAINT refused_admin_keys_pkey PRIMARY KEY (account, window_start)
      );
      CREATE INDEX refused_admin_keys_window_start_idx ON refused_admin_keys (window_start);
      COMMENT ON TABLE refused_admin_keys IS 'windows that are still open; closed ones move to audit_events';
      COMMENT ON COLUMN refused_admin_keys.account IS 'HMAC of the network that the wrong keys came from';
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE refused_admin_keys; DROP TABLE throttle_windows');
  }
}
