import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * The idempotency keys of node registrations. A new table: nothing waits for its lock, except that the foreign key takes
 * SHARE ROW EXCLUSIVE on nodes for a moment. Old replicas ignore the header.
 */
export class CreateIdempotencyKeys1763684250000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE idempotency_keys (
        key_mac    bytea       NOT NULL,
        body_mac   bytea       NOT NULL,
        node_id    uuid        NOT NULL,
        created_at timestamptz NOT NULL,
        CONSTRAINT idempotency_keys_pkey PRIMARY KEY (key_mac),
        CONSTRAINT idempotency_keys_node_id_fkey FOREIGN KEY (node_id) REFERENCES nodes (id)
          ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
      );
      CREATE INDEX idempotency_keys_node_id_idx ON idempotency_keys (node_id);
      CREATE INDEX idempotency_keys_created_at_idx ON idempotency_keys (created_at);
      COMMENT ON TABLE idempotency_keys IS 'registrations of nodes that may be repeated for 24 hours';
      COMMENT ON COLUMN idempotency_keys.key_mac IS 'HMAC of the header Idempotency-Key: the text may be anything';
      COMMENT ON COLUMN idempotency_keys.body_mac IS 'HMAC of the validated body, to refuse the same key with another one';
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE idempotency_keys');
  }
}
