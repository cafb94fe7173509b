// Edge devices with their keys, the registrations that may be repeated, and the codes of enrolments.

import { SqlMigration } from '../sql-migration.js';
import { commentKeyColumns, KEY_COLUMNS } from './key-columns.js';

export class CreateNodes1795651200006 extends SqlMigration {
  readonly create = () => `
    CREATE TABLE nodes (
      id                      uuid CONSTRAINT nodes_pkey PRIMARY KEY,
      household_id            uuid        NOT NULL,
      room                    text        NOT NULL,
      name                    text        NOT NULL,
      ${KEY_COLUMNS},
      targets                 text[]
    );
    CREATE INDEX nodes_household_id_idx ON nodes (household_id, id);
    CREATE INDEX nodes_previous_key_expires_at_idx ON nodes (previous_key_expires_at)
      WHERE previous_key_expires_at IS NOT NULL;
    CREATE INDEX nodes_dead_at_idx ON nodes (LEAST(expires_at, revoked_at));
    COMMENT ON TABLE nodes IS 'edge devices in a household';
    ${commentKeyColumns('nodes', 'the first use of the new key')}
    COMMENT ON COLUMN nodes.targets IS 'the only services at which the node is accepted; null: all';

    CREATE TABLE idempotency_keys (
      key_mac    bytea CONSTRAINT idempotency_keys_pkey PRIMARY KEY,
      body_mac   bytea       NOT NULL,
      node_id    uuid        NOT NULL,
      created_at timestamptz NOT NULL,
      CONSTRAINT idempotency_keys_node_id_fkey FOREIGN KEY (node_id) REFERENCES nodes (id)
        ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
    );
    CREATE INDEX idempotency_keys_node_id_idx ON idempotency_keys (node_id);
    CREATE INDEX idempotency_keys_created_at_idx ON idempotency_keys (created_at);
    COMMENT ON TABLE idempotency_keys IS 'registrations of nodes that may be repeated for 24 hours';
    COMMENT ON COLUMN idempotency_keys.key_mac IS 'HMAC of the header Idempotency-Key: the text may be anything';
    COMMENT ON COLUMN idempotency_keys.body_mac IS
      'HMAC of the validated body, to refuse the same key with another one';

    CREATE TABLE node_enrolments (
      id           uuid CONSTRAINT node_enrolments_pkey PRIMARY KEY,
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
      CONSTRAINT node_enrolments_code_mac_key UNIQUE (code_mac)
    );
    CREATE INDEX node_enrolments_expires_at_idx ON node_enrolments (expires_at);
    COMMENT ON TABLE node_enrolments IS 'codes with which nodes enrol themselves, once each';
    COMMENT ON COLUMN node_enrolments.code_mac IS
      'HMAC of the code under a key derived from MASTER_KEY: a code has 45 bits, so a plain digest could be reversed';
    COMMENT ON COLUMN node_enrolments.targets IS 'the only services at which the node will be accepted; null: all';
    COMMENT ON COLUMN node_enrolments.node_id IS 'the node that used the code';
    COMMENT ON COLUMN node_enrolments.retry_mac IS 'HMAC of the Idempotency-Key of the call that used the code';
  `;

  readonly drop = 'DROP TABLE node_enrolments, idempotency_keys, nodes';
}
