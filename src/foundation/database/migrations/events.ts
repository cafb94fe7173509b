// What happened, for the services that subscribe to it: events, subscriptions, and what a purge took.

import { SqlMigration } from '../sql-migration.js';

/** A cursor from before the last purged event of its types is reset, so a trigger records what each deletion took. */
export class CreateEvents1795651200018 extends SqlMigration {
  readonly create = () => `
    CREATE TABLE events (
      seal    bigint      NOT NULL,
      number  integer     NOT NULL,
      id      uuid        NOT NULL,
      type    text        NOT NULL,
      time    timestamptz NOT NULL,
      subject text        NOT NULL,
      data    jsonb       NOT NULL,
      CONSTRAINT events_pkey PRIMARY KEY (seal, number)
    );
    CREATE INDEX events_type_idx ON events (type, seal, number);
    CREATE INDEX events_time_idx ON events (time);
    COMMENT ON TABLE events IS 'what services may know of sealed rows of the audit log, in the order of the seals';
    COMMENT ON COLUMN events.number IS 'position within the seal, from 1';
    COMMENT ON COLUMN events.id IS 'of the row of the audit log';
    COMMENT ON COLUMN events.data IS 'ids, names and reasons; never a secret or an e-mail address';

    CREATE TABLE event_position (
      is_only boolean CONSTRAINT event_position_pkey PRIMARY KEY DEFAULT true,
      seal    bigint NOT NULL DEFAULT 0,
      CONSTRAINT event_position_is_only_check CHECK (is_only)
    );
    INSERT INTO event_position DEFAULT VALUES;
    COMMENT ON COLUMN event_position.seal IS 'the last seal whose rows were copied to events';

    CREATE TABLE event_purges (
      type   text CONSTRAINT event_purges_pkey PRIMARY KEY,
      seal   bigint  NOT NULL,
      number integer NOT NULL
    );
    COMMENT ON TABLE event_purges IS 'the last position that was deleted of each type: an older cursor is reset';
    CREATE FUNCTION record_event_purge() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO event_purges AS known (type, seal, number)
        SELECT DISTINCT ON (type) type, seal, number FROM deleted ORDER BY type, seal DESC, number DESC
        ON CONFLICT (type) DO UPDATE SET seal = EXCLUDED.seal, number = EXCLUDED.number
          WHERE (known.seal, known.number) < (EXCLUDED.seal, EXCLUDED.number);
      RETURN NULL;
    END $$;
    CREATE TRIGGER events_record_purge AFTER DELETE ON events REFERENCING OLD TABLE AS deleted
      FOR EACH STATEMENT EXECUTE FUNCTION record_event_purge();

    CREATE TABLE event_subscriptions (
      service    text CONSTRAINT event_subscriptions_pkey PRIMARY KEY,
      types      text[]      NOT NULL,
      seal       bigint      NOT NULL,
      number     integer     NOT NULL,
      generation integer     NOT NULL DEFAULT 0,
      origin     text,
      consumer   text,
      polled_at  timestamptz,
      created_at timestamptz NOT NULL,
      updated_at timestamptz NOT NULL
    );
    COMMENT ON COLUMN event_subscriptions.number IS 'with seal, the position: what the service has acknowledged';
    COMMENT ON COLUMN event_subscriptions.generation IS
      'raised by a rewind, a skip, a reset and an added type: cursors from before continue at the position';
    COMMENT ON COLUMN event_subscriptions.origin IS
      'the history to which the position belongs; null: the next poll is answered with a reset';
    COMMENT ON COLUMN event_subscriptions.consumer IS 'the process that polls; until 30 seconds after polled_at';
  `;

  readonly drop = `
    DROP TABLE event_subscriptions, event_purges, event_position, events;
    DROP FUNCTION record_event_purge();
  `;
}
