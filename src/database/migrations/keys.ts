// Keys of apps, nodes and operators, with what belongs to them (enrolments, idempotency keys, sessions of the console), and
// the keys that sign access tokens.

import { createTriggers, defineMigration } from '../define-migration.js';
import { createWindows } from './audit-log.js';
import { replaceUpdateTriggers } from './changes.js';

const KEY_TABLES = ['nodes', 'app_credentials'];
const ALL_KEY_TABLES = [...KEY_TABLES, 'operators'];
const USED = 'last_used_at,last_used_for';

const SIGNING_KEY_TRIGGERS = [
  `signing_keys_record_insert AFTER INSERT ON signing_keys FOR EACH ROW`,
  // The encryption of a private key is not a change of the key.
  `signing_keys_record_update AFTER UPDATE ON signing_keys FOR EACH ROW
     WHEN ((OLD.id, OLD.kid, OLD.state, OLD.retired_at) IS DISTINCT FROM (NEW.id, NEW.kid, NEW.state, NEW.retired_at))`,
  `signing_keys_record_delete AFTER DELETE ON signing_keys FOR EACH ROW`,
  `signing_keys_record_truncate AFTER TRUNCATE ON signing_keys FOR EACH STATEMENT`,
];

export const keyMigrations = [
  /** The history of a key, for operators. Nullable columns without a default, so that no row is rewritten. */
  defineMigration('AddKeyHistory1763683300000', {
    up: KEY_TABLES.map(
      (table) => `
        ALTER TABLE ${table}
          ADD COLUMN rotated_by_request text,
          ADD COLUMN overlap_ended_at   timestamptz,
          ADD COLUMN revoked_by_request text,
          ADD COLUMN last_used_for      text;
        COMMENT ON COLUMN ${table}.rotated_by_request IS 'id of the request that made the current key';
        COMMENT ON COLUMN ${table}.overlap_ended_at IS 'when the key before this one ended: at the first use of this one, or at its deadline';
        COMMENT ON COLUMN ${table}.revoked_by_request IS 'id of the request that revoked it';
        COMMENT ON COLUMN ${table}.last_used_for IS 'service that the key was last accepted for, when it was named';`,
    ).join(''),
    down: KEY_TABLES.map(
      (table) => `
        ALTER TABLE ${table} DROP COLUMN rotated_by_request, DROP COLUMN overlap_ended_at,
          DROP COLUMN revoked_by_request, DROP COLUMN last_used_for;`,
    ).join(''),
  }),

  /**
   * The idempotency keys of node registrations. A new table: nothing waits for its lock, except that the foreign key takes
   * SHARE ROW EXCLUSIVE on nodes for a moment. Old replicas ignore the header.
   */
  defineMigration('CreateIdempotencyKeys1763684250000', {
    up: `
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
    `,
    down: 'DROP TABLE idempotency_keys',
  }),

  /** The keys that sign access tokens under ES256 (docs/decisions/0046), and when each algorithm was last used. */
  defineMigration('CreateSigningKeys1763684300000', {
    up: (schema) => `
      CREATE TABLE signing_algorithms (
        algorithm      text        NOT NULL,
        last_signed_at timestamptz,
        CONSTRAINT signing_algorithms_pkey PRIMARY KEY (algorithm)
      );
      COMMENT ON COLUMN signing_algorithms.last_signed_at IS 'to the minute; its tokens are accepted for one token life after it';
      -- A version before this one signed with HS256 and did not record it.
      INSERT INTO signing_algorithms (algorithm, last_signed_at) VALUES
        ('HS256', (SELECT now() WHERE EXISTS (SELECT FROM sessions))), ('ES256', NULL);

      CREATE TABLE signing_keys (
        id                    uuid        NOT NULL,
        kid                   text        NOT NULL,
        algorithm             text        NOT NULL,
        state                 text        NOT NULL,
        encrypted_private_key bytea,
        created_at            timestamptz NOT NULL,
        activated_at          timestamptz,
        retired_at            timestamptz,
        revoked_at            timestamptz,
        CONSTRAINT signing_keys_pkey PRIMARY KEY (id),
        CONSTRAINT signing_keys_kid_key UNIQUE (kid),
        CONSTRAINT signing_keys_algorithm_fkey FOREIGN KEY (algorithm) REFERENCES signing_algorithms (algorithm),
        CONSTRAINT signing_keys_state_check CHECK (state IN ('next', 'active', 'retired', 'revoked'))
      );
      CREATE UNIQUE INDEX signing_keys_state_key ON signing_keys (algorithm, state) WHERE state IN ('next', 'active');
      COMMENT ON TABLE signing_keys IS 'keys are not deleted: a few rows a year';
      COMMENT ON COLUMN signing_keys.kid IS 'thumbprint of the public key (RFC 7638)';
      COMMENT ON COLUMN signing_keys.encrypted_private_key IS
        'PKCS #8 under AES-256-GCM with a key derived from SECRET_KEY; null once no token needs it';

      CREATE FUNCTION record_signing_key_change() RETURNS trigger LANGUAGE plpgsql AS $$
      DECLARE
        changed uuid;
      BEGIN
        -- Without an id: replicas and verifiers evict everything that they accepted.
        IF TG_OP = 'INSERT' OR (TG_OP = 'UPDATE' AND NEW.state <> 'revoked') THEN
          changed := NEW.id;
        END IF;
        INSERT INTO ${schema}.credential_changes (kind, credential_id) VALUES ('signing_key', changed);
        NOTIFY credential_changes;
        RETURN NULL;
      END $$;
      COMMENT ON COLUMN credential_changes.kind IS 'node, app, session, user, signing_key; null: anything may have changed';
      ${createTriggers(SIGNING_KEY_TRIGGERS, 'record_signing_key_change')}
    `,
    down: `
      DROP TABLE signing_keys;
      DROP FUNCTION record_signing_key_change();
      DROP TABLE signing_algorithms;
      DELETE FROM credential_changes WHERE kind = 'signing_key';
      COMMENT ON COLUMN credential_changes.kind IS 'node, app, session, user; null: anything may have changed';
    `,
  }),

  /**
   * Operators with keys of their own (docs/decisions/0047), and the windows in which refusals for want of a scope are
   * counted. New tables: nothing waits for a lock. Old replicas refuse the keys of operators.
   */
  defineMigration('CreateOperators1763771600000', {
    up: `
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

      ${createWindows('refused_admin_scopes', 'caller_request_id text,')}
      COMMENT ON COLUMN refused_admin_scopes.account IS 'HMAC of the operator id';
      COMMENT ON COLUMN refused_admin_scopes.subject IS 'id of the operator';
    `,
    down: 'DROP TABLE refused_admin_scopes; DROP TABLE operators',
  }),

  /**
   * Tells whether all uses of a key so far were reported by services, so that such a report does not hide the first use that a
   * replica sees itself. Constant defaults: no table is rewritten.
   */
  defineMigration('MarkReportedUses1763858500000', {
    up: `
      ${ALL_KEY_TABLES.map(
        (table) => `
        ALTER TABLE ${table} ADD COLUMN only_reported boolean NOT NULL DEFAULT false;
        COMMENT ON COLUMN ${table}.only_reported IS 'a service has reported a use, and no replica has seen one yet';`,
      ).join('')}
      ${replaceUpdateTriggers(`{${USED},only_reported}`)}
    `,
    down: `
      ${replaceUpdateTriggers(`{${USED}}`)}
      ${ALL_KEY_TABLES.map((table) => `ALTER TABLE ${table} DROP COLUMN only_reported;`).join('')}
    `,
  }),

  /** Targets of nodes and scopes of app credentials. Null restricts nothing, so that no row is written. */
  defineMigration('RestrictKeys1763945100000', {
    up: `
      ALTER TABLE nodes ADD COLUMN targets text[];
      COMMENT ON COLUMN nodes.targets IS 'the only services at which the node is accepted; null: all';
      ALTER TABLE app_credentials ADD COLUMN scopes text[], ADD COLUMN scopes_changed_at timestamptz,
        ADD COLUMN scope_uses jsonb NOT NULL DEFAULT '{}';
      COMMENT ON COLUMN app_credentials.scopes IS 'the only scopes that the credential has; null: all';
      COMMENT ON COLUMN app_credentials.scope_uses IS 'when each scope was last asked for; does not evict the key from caches';
      ${replaceUpdateTriggers(`{${USED},only_reported,scope_uses}`, ['app_credentials'])}
    `,
    // Every key is accepted for everything again: an operator who does not want that revokes the restricted ones first.
    down: `
      ${replaceUpdateTriggers(`{${USED},only_reported}`, ['app_credentials'])}
      ALTER TABLE nodes DROP COLUMN targets;
      ALTER TABLE app_credentials DROP COLUMN scopes, DROP COLUMN scopes_changed_at, DROP COLUMN scope_uses;
    `,
  }),

  /** Sessions end with their operator. At most a few hundred rows: a login deletes the ones that have ended. */
  defineMigration('CreateConsoleSessions1763945400000', {
    up: `
      CREATE TABLE console_sessions (
        digest bytea PRIMARY KEY,
        operator_id uuid REFERENCES operators ON DELETE CASCADE,
        key_digest bytea NOT NULL,
        created_at timestamptz NOT NULL,
        seen_at timestamptz NOT NULL,
        sent_forms uuid[] NOT NULL DEFAULT '{}'
      );
      COMMENT ON COLUMN console_sessions.operator_id IS 'null for the root key';
      COMMENT ON COLUMN console_sessions.key_digest IS 'of the key with which the session began';
    `,
    down: 'DROP TABLE console_sessions',
  }),

  /** The codes with which nodes enrol themselves. A new table: nothing waits for its lock, and old replicas do not use it. */
  defineMigration('CreateNodeEnrolments1763946000000', {
    up: `
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
    `,
    down: 'DROP TABLE node_enrolments',
  }),
];
