// Rate limit buckets, the counters of the throttles.

import { SqlMigration } from '../sql-migration.js';

/**
 * Unlogged, because a count is not worth a write to the WAL at each attempt: after a crash or a promotion the table is
 * empty and counting starts again. The fill factor leaves room in each page for updates in place (HOT).
 */
export class CreateThrottles1795651200012 extends SqlMigration {
  readonly create = () => `
    CREATE UNLOGGED TABLE throttle_windows (
      key            text CONSTRAINT throttle_windows_pkey PRIMARY KEY,
      points         integer     NOT NULL,
      window_start   timestamptz NOT NULL,
      window_end     timestamptz NOT NULL,
      consumed       integer     NOT NULL,
      reserved       integer     NOT NULL,
      reserved_until timestamptz NOT NULL,
      last_reserved  integer     NOT NULL
    ) WITH (fillfactor = 70);
    CREATE INDEX throttle_windows_window_end_idx ON throttle_windows (window_end);
    COMMENT ON TABLE throttle_windows IS 'tries in the current windows, and the addresses that are known to accounts';
    COMMENT ON COLUMN throttle_windows.key IS
      'name of the limit, and an HMAC of the account or network: reveals neither';
    COMMENT ON COLUMN throttle_windows.points IS 'the limit: consumed + reserved never exceed it';
    COMMENT ON COLUMN throttle_windows.window_start IS 'by the clock of this server, as all times of this table';
    COMMENT ON COLUMN throttle_windows.consumed IS 'points of confirmed wrong guesses, or of counted calls';
    COMMENT ON COLUMN throttle_windows.reserved IS 'points of guesses that are being verified, and may be refunded';
    COMMENT ON COLUMN throttle_windows.reserved_until IS
      'when reserved counts as 0, because a replica stopped between reserving and settling';
    COMMENT ON COLUMN throttle_windows.last_reserved IS
      'points that the last reservation got; RETURNING cannot tell otherwise before PostgreSQL 18';
  `;

  readonly drop = 'DROP TABLE throttle_windows';
}
