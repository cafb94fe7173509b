import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * The counters of the throttles, in the format of rate-limiter-flexible. Unlogged, because a count is not worth a write
 * to the WAL at each attempt: after a crash or a promotion the table is empty, and counting starts again. The fill
 * factor leaves room in each page for updates in place (HOT).
 */
export class CreateThrottleCounters1763683500000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE UNLOGGED TABLE throttle_counters (
        key    text    NOT NULL,
        points integer NOT NULL,
        expire bigint,
        CONSTRAINT throttle_counters_pkey PRIMARY KEY (key)
      ) WITH (fillfactor = 70);
      CREATE INDEX throttle_counters_expire_idx ON throttle_counters (expire);
      COMMENT ON TABLE throttle_counters IS 'tries in the current windows, and the addresses that accounts are known at';
      COMMENT ON COLUMN throttle_counters.key IS 'what is counted, and an HMAC over whom: names no account and no address';
      COMMENT ON COLUMN throttle_counters.expire IS 'end of the window, milliseconds since 1970';
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE throttle_counters');
  }
}
