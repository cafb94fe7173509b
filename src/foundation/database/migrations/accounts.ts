// Users, their sessions, second factors and mails.

import { createSearchIndex, defineMigration } from '../define-migration.js';

const END_REASONS =
  'logout, owner, password_changed, password_reset, second_factor_added, reuse, admin, disabled or session_limit';

export const createAccounts = defineMigration('CreateAccounts1764000000000', {
  isInitial: true,
  // Times that the service compares for equality have the precision of its clock, milliseconds.
  up: (schema) => `
    CREATE TABLE users (
      id                  uuid CONSTRAINT users_pkey PRIMARY KEY,
      email               text           NOT NULL,
      password_hash       text           NOT NULL,
      is_active           boolean        NOT NULL,
      created_at          timestamptz    NOT NULL,
      updated_at          timestamptz    NOT NULL,
      password_changed_at timestamptz(3),
      email_verified_at   timestamptz,
      factors_changed_at  timestamptz(3),
      first_proof_at      timestamptz,
      CONSTRAINT users_email_key UNIQUE (email),
      CONSTRAINT users_email_canonical_check CHECK (email = lower(email))
    );
    CREATE INDEX users_created_at_idx ON users (created_at);
    CREATE INDEX users_disabled_idx ON users (id) WHERE NOT is_active;
    CREATE INDEX users_unverified_idx ON users (id) WHERE email_verified_at IS NULL;
    ${createSearchIndex('users_email_search_idx', 'users', 'email')}
    COMMENT ON COLUMN users.email IS 'canonical form: printable ASCII in lower case';
    COMMENT ON COLUMN users.password_hash IS 'bcrypt, $2b$; over 72 bytes reduced with HMAC-SHA-256 first';
    COMMENT ON COLUMN users.password_changed_at IS
      'when the password was set, and later at each change; not at a rehash. Null: before this column existed, or imported';
    COMMENT ON COLUMN users.email_verified_at IS 'when a link proved that the address reaches its owner; null: not proven';
    COMMENT ON COLUMN users.factors_changed_at IS
      'identifies the set of second factors: a login that read another one is refused; null: never changed';
    COMMENT ON COLUMN users.first_proof_at IS
      'what email_verified_at was, or would have become, before an operator made the address unproven';

    CREATE TABLE sessions (
      id                   uuid CONSTRAINT sessions_pkey PRIMARY KEY,
      user_id              uuid        NOT NULL,
      token_digest         bytea       NOT NULL,
      generation           integer     NOT NULL,
      rotated_at           timestamptz NOT NULL,
      expires_at           timestamptz NOT NULL,
      absolute_expires_at  timestamptz NOT NULL,
      ended_at             timestamptz,
      end_reason           text,
      created_at           timestamptz NOT NULL,
      rotated_from         text,
      elsewhere_generation integer,
      created_from         text,
      user_agent           text,
      amr                  text[]      NOT NULL DEFAULT '{pwd}',
      CONSTRAINT sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE
    );
    CREATE INDEX sessions_user_id_idx ON sessions (user_id, id);
    CREATE INDEX sessions_not_ended_idx ON sessions (user_id, id) WHERE ended_at IS NULL;
    CREATE INDEX sessions_dead_at_idx ON sessions (LEAST(expires_at, ended_at));
    COMMENT ON TABLE sessions IS 'one row a login, however often its refresh token rotates';
    COMMENT ON COLUMN sessions.token_digest IS 'SHA-256 of the refresh token of this generation, the only one that is current';
    COMMENT ON COLUMN sessions.rotated_at IS
      'start of the refresh grace: the rotation, or the moment at which a slow commit of it became visible';
    COMMENT ON COLUMN sessions.end_reason IS '${END_REASONS}';
    COMMENT ON COLUMN sessions.rotated_from IS 'network that the last rotation was requested from: an IPv4 address, or an IPv6 /64';
    COMMENT ON COLUMN sessions.elsewhere_generation IS
      'generation whose repeat from another network is in the audit log: one row a rotation';
    COMMENT ON COLUMN sessions.created_from IS 'network of the login: an IPv4 address, or an IPv6 /64';
    COMMENT ON COLUMN sessions.user_agent IS 'User-Agent of the login: printable ASCII, at most 200 characters';
    COMMENT ON COLUMN sessions.amr IS 'how the user authenticated at the login (RFC 8176)';

    CREATE TABLE mail_requests (
      id              uuid CONSTRAINT mail_requests_pkey PRIMARY KEY,
      kind            text        NOT NULL,
      recipient       text        NOT NULL,
      user_id         uuid,
      request_id      text,
      attempts        integer     NOT NULL DEFAULT 0,
      created_at      timestamptz NOT NULL DEFAULT now(),
      requested_at    timestamptz NOT NULL DEFAULT now(),
      next_attempt_at timestamptz NOT NULL DEFAULT now(),
      networks        text[]      NOT NULL DEFAULT '{""}',
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
    COMMENT ON COLUMN mail_requests.networks IS 'IPv4 addresses and IPv6 /48 that asked for the mail, the newest first';

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
    -- A rehash at a login changes the hash, and leaves password_changed_at (docs/decisions/0048).
    CREATE TRIGGER users_void_one_time_tokens AFTER UPDATE ON users FOR EACH ROW
      WHEN (OLD.password_changed_at IS DISTINCT FROM NEW.password_changed_at OR (OLD.is_active AND NOT NEW.is_active))
      EXECUTE FUNCTION void_one_time_tokens();

    CREATE TABLE totp_factors (
      user_id          uuid CONSTRAINT totp_factors_pkey PRIMARY KEY,
      encrypted_secret bytea       NOT NULL,
      key_mark         bytea       NOT NULL,
      last_step        bigint,
      confirmed_at     timestamptz,
      created_at       timestamptz NOT NULL,
      CONSTRAINT totp_factors_user_id_fkey FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE
    );
    CREATE INDEX totp_factors_key_mark_idx ON totp_factors (key_mark);
    COMMENT ON COLUMN totp_factors.encrypted_secret IS '20 bytes under AES-256-GCM with a key derived from SECRET_KEY';
    COMMENT ON COLUMN totp_factors.key_mark IS 'tells which key encrypted the secret; it reveals nothing of the key';
    COMMENT ON COLUMN totp_factors.last_step IS
      'time step of the last accepted code (RFC 6238): no code of it or before is accepted again';
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
      id            uuid CONSTRAINT passkeys_pkey PRIMARY KEY,
      user_id       uuid        NOT NULL,
      credential_id bytea       NOT NULL,
      public_key    bytea       NOT NULL,
      counter       bigint      NOT NULL,
      transports    text[]      NOT NULL,
      is_synced     boolean     NOT NULL,
      name          text        NOT NULL,
      created_at    timestamptz NOT NULL,
      last_used_at  timestamptz,
      CONSTRAINT passkeys_credential_id_key UNIQUE (credential_id),
      CONSTRAINT passkeys_user_id_fkey FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE
    );
    CREATE INDEX passkeys_user_id_idx ON passkeys (user_id, id);
    COMMENT ON COLUMN passkeys.public_key IS 'COSE key (RFC 9052)';
    COMMENT ON COLUMN passkeys.counter IS 'signature counter of the last login; authenticators without one send 0';
    COMMENT ON COLUMN passkeys.is_synced IS 'the authenticator may copy the private key to other devices (flag BE)';

    CREATE TABLE used_challenges (
      digest     bytea CONSTRAINT used_challenges_pkey PRIMARY KEY,
      expires_at timestamptz NOT NULL
    );
    CREATE INDEX used_challenges_expires_at_idx ON used_challenges (expires_at);
    COMMENT ON TABLE used_challenges IS 'challenges that a login or a registration of a passkey has used, until they expire';
    COMMENT ON COLUMN used_challenges.digest IS 'SHA-256';
  `,
  // The extension pg_trgm stays: this database may use it for something else.
  down: `
    DROP TABLE used_challenges, passkeys, recovery_codes, totp_factors, one_time_tokens, mail_requests, sessions, users;
    DROP FUNCTION void_one_time_tokens();
  `,
});
