// The counters of the throttles, and the runs of jobs.

import { defineMigration } from '../define-migration.js';

/** The counters of versions before 0.1.0, which nothing uses. */
const THROTTLE_COUNTERS = `CREATE UNLOGGED TABLE throttle_counters (
    key    text CONSTRAINT throttle_counters_pkey PRIMARY KEY,
    points integer NOT NULL,
    expire bigint
  ) WITH (fillfactor = 70);
  CREATE INDEX throttle_counters_expire_idx ON throttle_counters (expire);
  COMMENT ON TABLE throttle_counters IS 'tries in the current windows, and the addresses that accounts are known at';
  COMMENT ON COLUMN throttle_counters.key IS 'what is counted, and an HMAC over whom: names no account and no address';
  COMMENT ON COLUMN throttle_counters.expire IS 'end of the window, milliseconds since 1970';`;

/**
 * The counters are unlogged, because a count is not worth a write to the WAL at each attempt: after a crash or a promotion
 * the table is empty, and counting starts again. The fill factor leaves room in each page for updates in place (HOT).
 */
export const createThrottlesAndJobs = defineMigration('CreateThrottlesAndJobs1764000003000', {
  isInitial: true,
  up: `
    CREATE UNLOGGED TABLE throttle_windows (
      key             text CONSTRAINT throttle_windows_pkey PRIMARY KEY,
      points          integer     NOT NULL,
      window_start    timestamptz NOT NULL,
      window_end      timestamptz NOT NULL,
      lost            integer     NOT NULL,
      in_flight       integer     NOT NULL,
      in_flight_until timestamptz NOT NULL,
      granted         integer     NOT NULL
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

    ${THROTTLE_COUNTERS}

    CREATE TABLE job_runs (
      job          text CONSTRAINT job_runs_pkey PRIMARY KEY,
      succeeded_at timestamptz NOT NULL DEFAULT now()
    );
    COMMENT ON TABLE job_runs IS 'when each job of the maintenance last succeeded, in any replica';
    -- The rows exist from the start, so that a job that never succeeds grows old too.
    INSERT INTO job_runs (job) VALUES ('purge'), ('audit_maintenance'), ('key_maintenance');
  `,
  down: 'DROP TABLE job_runs, throttle_counters, throttle_windows',
});

/** Replicas of version 0.1.0 do not use the table either, so they may still run. It locks that table for a moment. */
export const dropThrottleCounters = defineMigration('DropThrottleCounters1795458572000', {
  up: 'DROP TABLE throttle_counters',
  down: THROTTLE_COUNTERS,
});
