// Keys of apps, nodes and operators, with what belongs to them (enrolments, idempotency keys, sessions of the console), and
// the keys that sign access tokens.

import { createSearchIndex, defineMigration } from '../define-migration.js';

const KEY_COLUMNS = `
      key_digest              bytea       NOT NULL,
      previous_key_digest     bytea,
      previous_key_expires_at timestamptz,
      rotated_at              timestamptz,
      expires_at              timestamptz,
      revoked_at              timestamptz,
      last_used_at            timestamptz,
      created_at              timestamptz NOT NULL,
      updated_at              timestamptz NOT NULL,
      rotated_by_request      text,
      overlap_ended_at        timestamptz,
      revoked_by_request      text,
      last_used_for           text,
      only_reported           boolean     NOT NULL DEFAULT false`;

const describeKeyColumns = (table: string): string => `
    COMMENT ON COLUMN ${table}.rotated_by_request IS 'id of the request that made the current key';
    COMMENT ON COLUMN ${table}.overlap_ended_at IS
      'when the key before this one ended: at the first use of this one, or at its deadline';
    COMMENT ON COLUMN ${table}.revoked_by_request IS 'id of the request that revoked it';
    COMMENT ON COLUMN ${table}.only_reported IS 'a service has reported a use, and no replica has seen one yet';`;

const describeServiceKeyColumns = (table: string): string => `${describeKeyColumns(table)}
    COMMENT ON COLUMN ${table}.previous_key_digest IS 'still accepted until the new key is first used or previous_key_expires_at';
    COMMENT ON COLUMN ${table}.last_used_for IS 'service that the key was last accepted for, when it was named';`;

export const createKeys = defineMigration('CreateKeys1764000001000', {
  isInitial: true,
  up: `
    CREATE TABLE app_credentials (
      id                      uuid CONSTRAINT app_credentials_pkey PRIMARY KEY,
      caller                  text        NOT NULL,
      target                  text        NOT NULL,${KEY_COLUMNS},
      scopes                  text[],
      scopes_changed_at       timestamptz,
      scope_uses              jsonb       NOT NULL DEFAULT '{}'
    );
    CREATE UNIQUE INDEX app_credentials_live_pair_key ON app_credentials (caller, target) WHERE revoked_at IS NULL;
    CREATE INDEX app_credentials_dead_at_idx ON app_credentials (LEAST(expires_at, revoked_at));
    COMMENT ON TABLE app_credentials IS 'one key a pair of services: caller presents it to target';
    ${describeServiceKeyColumns('app_credentials')}
    COMMENT ON COLUMN app_credentials.scopes IS 'the only scopes that the credential has; null: all';
    COMMENT ON COLUMN app_credentials.scope_uses IS 'when each scope was last asked for; does not evict the key from caches';

    CREATE TABLE nodes (
      id                      uuid CONSTRAINT nodes_pkey PRIMARY KEY,
      household_id            uuid        NOT NULL,
      room                    text        NOT NULL,
      name                    text        NOT NULL,${KEY_COLUMNS},
      targets                 text[]
    );
    CREATE INDEX nodes_household_id_idx ON nodes (household_id, id);
    CREATE INDEX nodes_dead_at_idx ON nodes (LEAST(expires_at, revoked_at));
    ${createSearchIndex('nodes_search_idx', 'nodes', `lower(room || '/' || name)`)}
    COMMENT ON TABLE nodes IS 'edge devices in a household';
    ${describeServiceKeyColumns('nodes')}
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
    COMMENT ON COLUMN idempotency_keys.body_mac IS 'HMAC of the validated body, to refuse the same key with another one';

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
      'HMAC of the code under a key derived from SECRET_KEY: a code has 45 bits, so a plain digest could be reversed';
    COMMENT ON COLUMN node_enrolments.targets IS 'the only services at which the node will be accepted; null: all';
    COMMENT ON COLUMN node_enrolments.node_id IS 'the node that used the code';
    COMMENT ON COLUMN node_enrolments.retry_mac IS 'HMAC of the Idempotency-Key of the call that used the code';

    CREATE TABLE operators (
      id                      uuid CONSTRAINT operators_pkey PRIMARY KEY,
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
      only_reported           boolean     NOT NULL DEFAULT false,
      CONSTRAINT operators_name_check CHECK (name = lower(name)),
      CONSTRAINT operators_scopes_check CHECK (cardinality(scopes) > 0)
    );
    CREATE UNIQUE INDEX operators_live_name_key ON operators (name) WHERE revoked_at IS NULL;
    CREATE UNIQUE INDEX operators_key_digest_key ON operators (key_digest);
    CREATE INDEX operators_previous_key_digest_idx ON operators (previous_key_digest)
      WHERE previous_key_digest IS NOT NULL;
    COMMENT ON TABLE operators IS
      'people and programs that present a key of their own at the admin door; never purged, because the audit log refers to them';
    COMMENT ON COLUMN operators.name IS 'canonical: lower case; does not change';
    COMMENT ON COLUMN operators.scopes IS 'read, nodes, apps, users, operators';
    COMMENT ON COLUMN operators.key_digest IS 'SHA-256 of the key, which has 256 bits';
    ${describeKeyColumns('operators')}
    COMMENT ON COLUMN operators.previous_key_digest IS 'valid until the first use of the new key, or its deadline';
    COMMENT ON COLUMN operators.last_used_for IS 'null: shared with nodes and app_credentials, and unused here';

    CREATE TABLE console_sessions (
      digest      bytea CONSTRAINT console_sessions_pkey PRIMARY KEY,
      operator_id uuid,
      key_digest  bytea       NOT NULL,
      created_at  timestamptz NOT NULL,
      seen_at     timestamptz NOT NULL,
      sent_forms  uuid[]      NOT NULL DEFAULT '{}',
      CONSTRAINT console_sessions_operator_id_fkey FOREIGN KEY (operator_id) REFERENCES operators (id) ON DELETE CASCADE
    );
    COMMENT ON COLUMN console_sessions.operator_id IS 'null for the root key';
    COMMENT ON COLUMN console_sessions.key_digest IS 'of the key with which the session began';

    CREATE TABLE signing_algorithms (
      algorithm      text CONSTRAINT signing_algorithms_pkey PRIMARY KEY,
      last_signed_at timestamptz
    );
    COMMENT ON COLUMN signing_algorithms.last_signed_at IS 'to the minute; its tokens are accepted for one token life after it';
    INSERT INTO signing_algorithms (algorithm) VALUES ('HS256'), ('ES256');

    CREATE TABLE signing_keys (
      id                    uuid CONSTRAINT signing_keys_pkey PRIMARY KEY,
      kid                   text        NOT NULL,
      algorithm             text        NOT NULL,
      state                 text        NOT NULL,
      encrypted_private_key bytea,
      created_at            timestamptz NOT NULL,
      activated_at          timestamptz,
      retired_at            timestamptz,
      revoked_at            timestamptz,
      CONSTRAINT signing_keys_kid_key UNIQUE (kid),
      CONSTRAINT signing_keys_algorithm_fkey FOREIGN KEY (algorithm) REFERENCES signing_algorithms (algorithm),
      CONSTRAINT signing_keys_state_check CHECK (state IN ('next', 'active', 'retired', 'revoked'))
    );
    CREATE UNIQUE INDEX signing_keys_state_key ON signing_keys (algorithm, state) WHERE state IN ('next', 'active');
    COMMENT ON TABLE signing_keys IS 'keys are not deleted: a few rows a year';
    COMMENT ON COLUMN signing_keys.kid IS 'thumbprint of the public key (RFC 7638)';
    COMMENT ON COLUMN signing_keys.encrypted_private_key IS
      'PKCS #8 under AES-256-GCM with a key derived from SECRET_KEY; null once no token needs it';
  `,
  down: `
    DROP TABLE signing_keys, signing_algorithms, console_sessions, operators, node_enrolments, idempotency_keys, nodes,
      app_credentials;
  `,
});
