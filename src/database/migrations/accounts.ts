// Users, their sessions, second factors and mails; and the first tables of keys, which came with them.

import { defineMigration } from '../define-migration.js';
import { createWindows } from './audit-log.js';

const KEY_COLUMNS = `
  key_digest              bytea       NOT NULL,
  previous_key_digest     bytea,
  previous_key_expires_at timestamptz,
  rotated_at              timestamptz,
  expires_at              timestamptz,
  revoked_at              timestamptz,
  last_used_at            timestamptz,
  created_at              timestamptz NOT NULL,
  updated_at              timestamptz NOT NULL`;

const END_REASONS =
  'logout, owner, password_changed, password_reset, second_factor_added, reuse, admin, disabled or session_limit';

export const accountMigrations = [
  /** Users, their sessions, and the two kinds of generated keys. Runs on an empty schema in milliseconds. */
  defineMigration('CreateSchema1763683200000', {
    up: `
      CREATE TABLE users (
        id            uuid        NOT NULL,
        email         text        NOT NULL,
        password_hash text        NOT NULL,
        is_active     boolean     NOT NULL,
        created_at    timestamptz NOT NULL,
        updated_at    timestamptz NOT NULL,
        CONSTRAINT users_pkey PRIMARY KEY (id),
        CONSTRAINT users_email_key UNIQUE (email),
        CONSTRAINT users_email_canonical_check CHECK (email = lower(email))
      );
      COMMENT ON COLUMN users.email IS 'canonical form: printable ASCII in lower case';
      COMMENT ON COLUMN users.password_hash IS 'bcrypt, $2b$; over 72 bytes reduced with HMAC-SHA-256 first';

      CREATE TABLE sessions (
        id                  uuid        NOT NULL,
        user_id             uuid        NOT NULL,
        token_digest        bytea       NOT NULL,
        generation          integer     NOT NULL,
        rotated_at          timestamptz NOT NULL,
        expires_at          timestamptz NOT NULL,
        absolute_expires_at timestamptz NOT NULL,
        ended_at            timestamptz,
        end_reason          text,
        created_at          timestamptz NOT NULL,
        CONSTRAINT sessions_pkey PRIMARY KEY (id),
        CONSTRAINT sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE
      );
      CREATE INDEX sessions_user_id_idx ON sessions (user_id, id);
      CREATE INDEX sessions_dead_at_idx ON sessions (LEAST(expires_at, ended_at));
      COMMENT ON TABLE sessions IS 'one row a login, however often its refresh token rotates';
      COMMENT ON COLUMN sessions.token_digest IS 'SHA-256 of the refresh token of this generation, the only one that is current';
      COMMENT ON COLUMN sessions.end_reason IS 'logout, reuse, admin or disabled';

      CREATE TABLE app_credentials (
        id     uuid NOT NULL,
        caller text NOT NULL,
        target text NOT NULL,
        ${KEY_COLUMNS},
        CONSTRAINT app_credentials_pkey PRIMARY KEY (id)
      );
      CREATE UNIQUE INDEX app_credentials_live_pair_key ON app_credentials (caller, target) WHERE revoked_at IS NULL;
      CREATE INDEX app_credentials_dead_at_idx ON app_credentials (LEAST(expires_at, revoked_at));
      COMMENT ON TABLE app_credentials IS 'one key a pair of services: caller presents it to target';
      COMMENT ON COLUMN app_credentials.previous_key_digest IS 'still accepted until the new key is first used or previous_key_expires_at';

      CREATE TABLE nodes (
        id           uuid NOT NULL,
        household_id uuid NOT NULL,
        room         text NOT NULL,
        name         text NOT NULL,
        ${KEY_COLUMNS},
        CONSTRAINT nodes_pkey PRIMARY KEY (id)
      );
      CREATE INDEX nodes_household_id_idx ON nodes (household_id, id);
      CREATE INDEX nodes_dead_at_idx ON nodes (LEAST(expires_at, revoked_at));
      COMMENT ON TABLE nodes IS 'edge devices in a household';
      COMMENT ON COLUMN nodes.previous_key_digest IS 'still accepted until the new key is first used or previous_key_expires_at';
    `,
    down: 'DROP TABLE nodes; DROP TABLE app_credentials; DROP TABLE sessions; DROP TABLE users;',
  }),

  /**
   * For the session limit, and for detecting a refresh that is repeated from another network. Nullable: no row is
   * rewritten.
   */
  defineMigration('AddSessionLimit1763683800000', {
    up: `
      ALTER TABLE sessions
        ADD COLUMN rotated_from          text,
        ADD COLUMN elsewhere_generation  integer;
      CREATE INDEX sessions_not_ended_idx ON sessions (user_id, id) WHERE ended_at IS NULL;
      COMMENT ON COLUMN sessions.rotated_from IS 'network that the last rotation was requested from: an IPv4 address, or an IPv6 /64';
      COMMENT ON COLUMN sessions.elsewhere_generation IS 'generation whose repeat from another network is in the audit log: one row a rotation';
      COMMENT ON COLUMN sessions.end_reason IS 'logout, reuse, admin, disabled or session_limit';
      COMMENT ON COLUMN sessions.rotated_at IS 'start of the refresh grace: the rotation, or the moment at which a slow commit of it became visible';
    `,
    down: `
      COMMENT ON COLUMN sessions.rotated_at IS NULL;
      COMMENT ON COLUMN sessions.end_reason IS 'logout, reuse, admin or disabled';
      DROP INDEX sessions_not_ended_idx;
      ALTER TABLE sessions DROP COLUMN rotated_from, DROP COLUMN elsewhere_generation;
    `,
  }),

  /**
   * For what users do to their own accounts (docs/decisions/0050): when a password was set, and where a session was begun.
   * Nullable columns: no row is rewritten, and the lock of each table lasts milliseconds. Old replicas leave them null.
   */
  defineMigration('OwnAccounts1763771500000', {
    // Milliseconds, as the service reads it: it compares the value for equality.
    up: `
      ALTER TABLE users ADD COLUMN password_changed_at timestamptz(3);
      COMMENT ON COLUMN users.password_changed_at IS
        'when the password was set, and later at each change; not at a rehash. Null: before this column existed, or imported';
      ALTER TABLE sessions ADD COLUMN created_from text, ADD COLUMN user_agent text;
      COMMENT ON COLUMN sessions.created_from IS 'network of the login: an IPv4 address, or an IPv6 /64';
      COMMENT ON COLUMN sessions.user_agent IS 'User-Agent of the login: printable ASCII, at most 200 characters';
      COMMENT ON COLUMN sessions.end_reason IS 'logout, owner, password_changed, reuse, admin, disabled or session_limit';
    `,
    down: `
      COMMENT ON COLUMN sessions.end_reason IS 'logout, reuse, admin, disabled or session_limit';
      ALTER TABLE sessions DROP COLUMN created_from, DROP COLUMN user_agent;
      ALTER TABLE users DROP COLUMN password_changed_at;
    `,
  }),

  /**
   * Links by e-mail (docs/decisions/0048): the outbox, the digests of one-time tokens, and when an address was proven. New
   * tables, a nullable column and a trigger: the locks of users last milliseconds. Old replicas leave the column null; a
   * password that they set voids tokens too, because the trigger does it.
   */
  defineMigration('CreateLinksByEmail1763771700000', {
    up: (schema) => `
      ALTER TABLE users ADD COLUMN email_verified_at timestamptz;
      COMMENT ON COLUMN users.email_verified_at IS 'when a link proved that the address reaches its owner; null: not proven';

      CREATE TABLE mail_requests (
        id              uuid        NOT NULL,
        kind            text        NOT NULL,
        recipient       text        NOT NULL,
        user_id         uuid,
        request_id      text,
        attempts        integer     NOT NULL DEFAULT 0,
        created_at      timestamptz NOT NULL DEFAULT now(),
        requested_at    timestamptz NOT NULL DEFAULT now(),
        next_attempt_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT mail_requests_pkey PRIMARY KEY (id),
        CONSTRAINT mail_requests_user_id_fkey FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE
      );
      CREATE UNIQUE INDEX mail_requests_recipient_key ON mail_requests (kind, recipient) WHERE user_id IS NULL;
      CREATE UNIQUE INDEX mail_requests_user_key ON mail_requests (user_id, kind) WHERE user_id IS NOT NULL;
      CREATE INDEX mail_requests_next_attempt_at_idx ON mail_requests (next_attempt_at);
      COMMENT ON TABLE mail_requests IS 'the outbox: mails to be sent, without their tokens; a row is deleted when its mail is accepted';
      COMMENT ON COLUMN mail_requests.kind IS 'password_reset, email_verification, email_change or email_change_notice';
      COMMENT ON COLUMN mail_requests.recipient IS 'canonical address; without a user_id it may have no account';
      COMMENT ON COLUMN mail_requests.user_id IS 'the user who asked while logged in; null: an anonymous client asked';
      COMMENT ON COLUMN mail_requests.next_attempt_at IS 'when a worker may take the row; it is moved ahead while one has it';

      CREATE TABLE one_time_tokens (
        user_id    uuid        NOT NULL,
        purpose    text        NOT NULL,
        digest     bytea       NOT NULL,
        email      text,
        expires_at timestamptz NOT NULL,
        CONSTRAINT one_time_tokens_pkey PRIMARY KEY (user_id, purpose),
        CONSTRAINT one_time_tokens_digest_key UNIQUE (digest),
        CONSTRAINT one_time_tokens_user_id_fkey FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE
      );
      CREATE INDEX one_time_tokens_expires_at_idx ON one_time_tokens (expires_at);
      COMMENT ON TABLE one_time_tokens IS 'tokens that were mailed or handed over; a row is deleted when its token is used';
      COMMENT ON COLUMN one_time_tokens.purpose IS 'password_reset, operator_password_reset, email_verification or email_change';
      COMMENT ON COLUMN one_time_tokens.digest IS 'SHA-256 of the token';
      COMMENT ON COLUMN one_time_tokens.email IS 'the address that the token was sent to; null: an operator hands it over';

      CREATE FUNCTION void_one_time_tokens() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        DELETE FROM ${schema}.one_time_tokens WHERE user_id = NEW.id;
        -- A change of address that was asked for before must not be mailed after it.
        DELETE FROM ${schema}.mail_requests WHERE user_id = NEW.id AND kind = 'email_change';
        RETURN NULL;
      END $$;
      CREATE TRIGGER users_void_one_time_tokens AFTER UPDATE ON users FOR EACH ROW
        WHEN (OLD.password_hash IS DISTINCT FROM NEW.password_hash OR (OLD.is_active AND NOT NEW.is_active))
        EXECUTE FUNCTION void_one_time_tokens();
    `,
    down: `
      DROP TRIGGER users_void_one_time_tokens ON users;
      DROP FUNCTION void_one_time_tokens();
      DROP TABLE one_time_tokens;
      DROP TABLE mail_requests;
      ALTER TABLE users DROP COLUMN email_verified_at;
    `,
  }),

  /**
   * Second factors of users (docs/decisions/0049), and how each session was made. The new column of `sessions` has a
   * constant default, so no row is rewritten; its lock lasts milliseconds. A replica of the version before this one makes
   * sessions with that default, which is what they are.
   */
  defineMigration('AddSecondFactors1763771800000', {
    up: `
      ALTER TABLE sessions ADD COLUMN amr text[] NOT NULL DEFAULT '{pwd}';
      COMMENT ON COLUMN sessions.amr IS 'how the user authenticated at the login (RFC 8176)';

      ALTER TABLE users ADD COLUMN factors_changed_at timestamptz(3);
      COMMENT ON COLUMN users.factors_changed_at IS
        'identifies the set of second factors: a login that read another one is refused; null: never changed';

      CREATE TABLE totp_factors (
        user_id          uuid        NOT NULL,
        encrypted_secret bytea       NOT NULL,
        key_mark         bytea       NOT NULL,
        last_step        bigint,
        confirmed_at     timestamptz,
        created_at       timestamptz NOT NULL,
        CONSTRAINT totp_factors_pkey PRIMARY KEY (user_id),
        CONSTRAINT totp_factors_user_id_fkey FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE
      );
      COMMENT ON COLUMN totp_factors.encrypted_secret IS '20 bytes under AES-256-GCM with a key derived from SECRET_KEY';
      COMMENT ON COLUMN totp_factors.key_mark IS 'tells which key encrypted the secret; it reveals nothing of the key';
      COMMENT ON COLUMN totp_factors.last_step IS 'time step of the last accepted code (RFC 6238): no code of it or before is accepted again';
      COMMENT ON COLUMN totp_factors.confirmed_at IS 'null: not asked for at a login yet';

      CREATE TABLE recovery_codes (
        user_id uuid  NOT NULL,
        digest  bytea NOT NULL,
        CONSTRAINT recovery_codes_pkey PRIMARY KEY (user_id, digest),
        CONSTRAINT recovery_codes_user_id_fkey FOREIGN KEY (user_id) REFERENCES totp_factors (user_id) ON DELETE CASCADE
      );
      COMMENT ON TABLE recovery_codes IS 'unused codes: a used one is deleted';
      COMMENT ON COLUMN recovery_codes.digest IS 'SHA-256 of a code of 120 random bits';

      CREATE TABLE passkeys (
        id            uuid        NOT NULL,
        user_id       uuid        NOT NULL,
        credential_id bytea       NOT NULL,
        public_key    bytea       NOT NULL,
        counter       bigint      NOT NULL,
        transports    text[]      NOT NULL,
        is_synced     boolean     NOT NULL,
        name          text        NOT NULL,
        created_at    timestamptz NOT NULL,
        last_used_at  timestamptz,
        CONSTRAINT passkeys_pkey PRIMARY KEY (id),
        CONSTRAINT passkeys_credential_id_key UNIQUE (credential_id),
        CONSTRAINT passkeys_user_id_fkey FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE
      );
      CREATE INDEX passkeys_user_id_idx ON passkeys (user_id, id);
      COMMENT ON COLUMN passkeys.public_key IS 'COSE key (RFC 9052)';
      COMMENT ON COLUMN passkeys.counter IS 'signature counter of the last login; authenticators without one send 0';
      COMMENT ON COLUMN passkeys.is_synced IS 'the authenticator may copy the private key to other devices (flag BE)';

      CREATE TABLE used_challenges (
        digest     bytea       NOT NULL,
        expires_at timestamptz NOT NULL,
        CONSTRAINT used_challenges_pkey PRIMARY KEY (digest)
      );
      CREATE INDEX used_challenges_expires_at_idx ON used_challenges (expires_at);
      COMMENT ON TABLE used_challenges IS 'challenges that a login or a registration of a passkey has used, until they expire';
      COMMENT ON COLUMN used_challenges.digest IS 'SHA-256';

      ${createWindows('failed_second_factors', 'caller_request_id text,')}
      COMMENT ON COLUMN failed_second_factors.account IS 'HMAC of the id of the user, or of a network where the user is not known';
    `,
    down: `
      DROP TABLE failed_second_factors;
      DROP TABLE used_challenges;
      DROP TABLE passkeys;
      DROP TABLE recovery_codes;
      DROP TABLE totp_factors;
      ALTER TABLE users DROP COLUMN factors_changed_at;
      ALTER TABLE sessions DROP COLUMN amr;
    `,
  }),

  /**
   * One-time tokens are voided by a change of the password, not by a rehash at a login (docs/decisions/0048): statements that
   * set a password move `password_changed_at`. No released version changes the password of an account without moving it. The
   * lock of `users` lasts milliseconds; the index is built over one row for each authenticator app.
   */
  defineMigration('KeepLinksAtRehashes1763771900000', {
    up: `
      CREATE INDEX totp_factors_key_mark_idx ON totp_factors (key_mark);
      CREATE OR REPLACE TRIGGER users_void_one_time_tokens AFTER UPDATE ON users FOR EACH ROW
        WHEN (OLD.password_changed_at IS DISTINCT FROM NEW.password_changed_at OR (OLD.is_active AND NOT NEW.is_active))
        EXECUTE FUNCTION void_one_time_tokens();
      COMMENT ON COLUMN sessions.end_reason IS '${END_REASONS}';
      COMMENT ON COLUMN audit_events.actor_door IS
        'user, app, node, admin; open: the caller is unknown; cli: the command line; service: the service itself';
    `,
    down: `
      COMMENT ON COLUMN audit_events.actor_door IS 'user, app, node, admin; open: the caller is unknown; cli: the command line';
      COMMENT ON COLUMN sessions.end_reason IS 'logout, owner, password_changed, reuse, admin, disabled or session_limit';
      DROP INDEX totp_factors_key_mark_idx;
      CREATE OR REPLACE TRIGGER users_void_one_time_tokens AFTER UPDATE ON users FOR EACH ROW
        WHEN (OLD.password_hash IS DISTINCT FROM NEW.password_hash OR (OLD.is_active AND NOT NEW.is_active))
        EXECUTE FUNCTION void_one_time_tokens();
    `,
  }),

  /** A constant default, so the table is not rewritten. Requests of old replicas share the network ''. */
  defineMigration('AddMailNetworks1763858600000', {
    up: `
      ALTER TABLE mail_requests ADD COLUMN networks text[] NOT NULL DEFAULT '{""}';
      COMMENT ON COLUMN mail_requests.networks IS 'IPv4 addresses and IPv6 /48 that asked for the mail, the newest first';
    `,
    down: 'ALTER TABLE mail_requests DROP COLUMN networks',
  }),

  /**
   * Indexes for the filters of lists (docs/decisions/0052). Changes of accounts and nodes wait while they are built, logins
   * and validations do not. An operator may create the indexes before, CONCURRENTLY. Where the role may not create pg_trgm, or
   * the server does not have it, searches read the table; the operator may create the extension and the two indexes later.
   */
  defineMigration('IndexLists1763858700000', {
    up: `
      CREATE INDEX IF NOT EXISTS users_created_at_idx ON users (created_at);
      CREATE INDEX IF NOT EXISTS users_disabled_idx ON users (id) WHERE NOT is_active;
      CREATE INDEX IF NOT EXISTS users_unverified_idx ON users (id) WHERE email_verified_at IS NULL;
      DO $$
      DECLARE
        home text;
      BEGIN
        CREATE EXTENSION IF NOT EXISTS pg_trgm;
        SELECT quote_ident(nspname) INTO home FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
          WHERE extname = 'pg_trgm';
        EXECUTE format('CREATE INDEX IF NOT EXISTS users_email_search_idx ON users USING gin (email %s.gin_trgm_ops)', home);
        EXECUTE format('CREATE INDEX IF NOT EXISTS nodes_search_idx ON nodes
                        USING gin (lower(room || ''/'' || name) %s.gin_trgm_ops)', home);
      EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_file THEN
        RAISE NOTICE 'Searches will read the whole table: %', SQLERRM;
      END $$;
    `,
    // The extension stays: this database may use it for something else.
    down: `
      DROP INDEX IF EXISTS users_email_search_idx, nodes_search_idx;
      DROP INDEX users_created_at_idx, users_disabled_idx, users_unverified_idx;
    `,
  }),

  /**
   * An operator may set an address that nobody has proven (docs/decisions/0048). A nullable column without a default: the lock of
   * `users` lasts milliseconds. An old replica that claims a mail of a new kind fails, and a new one sends it two minutes later.
   */
  defineMigration('KeepFirstProofs1763947000000', {
    up: `
      ALTER TABLE users ADD COLUMN first_proof_at timestamptz;
      COMMENT ON COLUMN users.first_proof_at IS
        'what email_verified_at was, or would have become, before an operator made the address unproven';
    `,
    down: `
      DELETE FROM mail_requests WHERE kind IN ('password_reset_notice', 'email_changed', 'email_set', 'factors_removed');
      ALTER TABLE users DROP COLUMN first_proof_at;
    `,
  }),
];
