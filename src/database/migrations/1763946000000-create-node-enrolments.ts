import type { MigrationInterface, QueryRunner } from 'typeorm';

/** The codes with which nodes enrol themselves. A new table: nothing waits for its lock, and old replicas do not use it. */
export class CreateNodeEnrolments1763946000000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE node_enrolments (
        id           uuid        NOT NULL,
        code_mac     bytea       NOT NULL,
        household_id uuid        NOT NULL,
        room         text        NOT NULL,
        name         text        NOT NULL,
        targets      text[],
        created_at   timestamptz NOT NULL,
        expires_at   timestamptz NOT NULL,
        cancelled_at timestamptz,
        used_at      timestamptz,
        node_id      uuid,
        retry_mac    bytea,
        CONSTRAINT node_enrolments_pkey PRIMARY KEY (id),
        CONSTRAINT node_enrolments_code_mac_key UNIQUE (code_mac)
      );
      CREATE INDEX node_enrolments_expires_at_idx ON node_enrolments (expires_at);
      COMMENT ON TABLE node_enrolments IS 'codes with which nodes enrol themselves, once each';
      COMMENT ON COLUMN node_enrolments.code_mac IS 'HMAC of the code under a key derived from SECRET_KEY: a code has 45 bits, so a plain digest could be reversed';
      COMMENT ON COLUMN node_enrolments.targets IS 'the services that the node may ask; null: all';
      COMMENT ON COLUMN node_enrolments.node_id IS 'the node that used the code';
      COMMENT ON COLUMN node_enrolments.retry_mac IS 'HMAC of the Idempotency-Key of the call that used the code';
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE node_enrolments');
  }
}
