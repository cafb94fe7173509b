// What happened in each hour, as the first page of the console and `platform-auth status --history` show it.

import { SqlMigration } from '../sql-migration.js';

export class CreateHourlyCounts1795651200017 extends SqlMigration {
  readonly create = () => `
    CREATE TABLE hourly_counts (
      hour               timestamptz NOT NULL,
      process_id         uuid        NOT NULL,
      host               text        NOT NULL,
      seen_at            timestamptz NOT NULL DEFAULT now(),
      clock_skew_seconds real        NOT NULL,
      logins             bigint      NOT NULL,
      failed_logins      bigint      NOT NULL,
      throttled_guesses  bigint      NOT NULL,
      refused_keys       bigint      NOT NULL,
      new_sessions       bigint      NOT NULL,
      validations        bigint      NOT NULL,
      CONSTRAINT hourly_counts_pkey PRIMARY KEY (hour, process_id)
    );
    COMMENT ON TABLE hourly_counts IS
      'what each process counted in each hour; totals, so that a repeated write changes nothing';
    COMMENT ON COLUMN hourly_counts.hour IS 'its beginning, by the clock of this server';
    COMMENT ON COLUMN hourly_counts.process_id IS 'chosen at the start of the process';
    COMMENT ON COLUMN hourly_counts.host IS 'name of the machine or the pod';
    COMMENT ON COLUMN hourly_counts.seen_at IS 'when the process last wrote this row, which it does each minute';
    COMMENT ON COLUMN hourly_counts.clock_skew_seconds IS 'by which the clock of the process was then ahead';
  `;

  readonly drop = 'DROP TABLE hourly_counts';
}
