import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Operators with keys of their own (docs/decisions/0047), and the windows in which refusals for want of a scope are
 * counted. New tables: nothing waits for a lock. Old replicas refuse the keys of operators.
 */
export class CreateOperators1763771600000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE operators (
        id                      uuid        NOT NULL,
        name                    text        NOT NULL,
        scopes                  text[]      NOT NULL,
        key_digest              bytea       NOT NULL,
        previous_key_digest     bytea,
        previous_key_expires_at timestamptz,
        rotated_at              timestamptz,
        expires_at              timestamptz,
        revoked_at              timestamptz,
        last_used_at            timestamptz,
        rotated_by_request      text,
        overlap_ended_at        timestamptz,
        revoked_by_request      text,
        last_used_for           text,
        created_at              timestamptz NOT NULL,
        updated_at              timestamptz NOT NULL,
        CONSTRAINT operators_pkey PRIMARY KEY (id),
        CONSTRAINT operators_name_check CHECK (name = lower(name)),
        CONSTRAINT operators_scopes_check CHECK (cardinality(scopes) > 0)
      );
      CREATE UNIQUE INDEX operators_live_name_key ON operators (name) WHERE revoked_at IS NULL;
      CREATE UNIQUE INDEX operators_key_digest_key ON operators (key_digest);
      CREATE INDEX operators_previous_key_digest_idx ON operators (previous_key_digest)
        WHERE previous_key_digest IS NOT NULL;
      COMMENT ON TABLE operators IS 'people and programs that present a key of their own at the admin door; never purged, because the audit log refers to them';
      COMMENT ON COLUMN operators.name IS 'canonical: lower case; does not change';
      COMMENT ON COLUMN operators.scopes IS 'read, nodes, apps, users, operators';
      COMMENT ON COLUMN operators.key_digest IS 'SHA-256 of the key, which has 256 bits';
      COMMENT ON COLUMN operators.previous_key_digest IS 'valid until the first use of the new key, or its deadline';
      COMMENT ON COLUMN operators.overlap_ended_at IS 'when the key before this one ended: at the first use of this one, or at its deadline';
      COMMENT ON COLUMN operators.rotated_by_request IS 'id of the request that made the current key';
      COMMENT ON COLUMN operators.revoked_by_request IS 'id of the request that revoked it';
      COMMENT ON COLUMN operators.last_used_for IS 'null: shared with nodes and app_credentials, and unused here';

      CREATE TABLE refused_admin_scopes (
        account           bytea       NOT NULL,
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
        CONSTRAINT refused_admin_scopes_pkey PRIMARY KEY (account, window_start)
      );
      CREATE INDEX refused_admin_scopes_window_start_idx ON refused_admin_scopes (window_start);
      COMMENT ON TABLE refused_admin_scopes IS 'windows that are still open; closed ones move to audit_events';
      COMMENT ON COLUMN refused_admin_scopes.account IS 'HMAC of the operator id';
      COMMENT ON COLUMN refused_admin_scopes.subject IS 'id of the operator';
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE refused_admin_scopes; DROP TABLE operators');
  }
}
