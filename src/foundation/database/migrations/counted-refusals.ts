// Counted refusals, whose windows of 15 minutes move to the audit log when they close.

import { SqlMigration } from '../sql-migration.js';

export class CreateCountedRefusals1795651200011 extends SqlMigration {
  readonly create = () => `
    CREATE TABLE counted_refusals (
      event             text        NOT NULL,
      counted_mac       bytea       NOT NULL,
      window_start      timestamptz NOT NULL,
      id                uuid        NOT NULL,
      time              timestamptz NOT NULL,
      last_at           timestamptz NOT NULL,
      subject           text        NOT NULL,
      request_id        text,
      caller_request_id text,
      address           text,
      count             integer     NOT NULL,
      reasons           jsonb       NOT NULL,
      addresses         jsonb       NOT NULL,
      request_ids       uuid[]      NOT NULL,
      CONSTRAINT counted_refusals_pkey PRIMARY KEY (event, counted_mac, window_start)
    );
    CREATE INDEX counted_refusals_window_start_idx ON counted_refusals (window_start);
    COMMENT ON TABLE counted_refusals IS 'windows that are still open; closed ones move to audit_events';
    COMMENT ON COLUMN counted_refusals.counted_mac IS
      'HMAC of what is counted: a canonical e-mail address, a network, or the id of a user, operator, node or app credential';
    COMMENT ON COLUMN counted_refusals.id IS
      'of the row of audit_events that the window becomes, as time and subject';
    COMMENT ON COLUMN counted_refusals.time IS 'of the first refusal, as request_id, caller_request_id and address';
    COMMENT ON COLUMN counted_refusals.reasons IS 'the count of each reason';
    COMMENT ON COLUMN counted_refusals.addresses IS 'the most frequent ones with their counts, at most 16';
    COMMENT ON COLUMN counted_refusals.request_ids IS 'after the first request, the latest one first, at most 20';
  `;

  readonly drop = 'DROP TABLE counted_refusals';
}
