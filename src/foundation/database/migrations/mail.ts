// The outbox of mails, and the one-time tokens that are sent in them.

import { SqlMigration } from '../sql-migration.js';

export class CreateMail1795651200003 extends SqlMigration {
  readonly create = (schema: string) => `
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
    COMMENT ON TABLE mail_requests IS
      'the outbox: mails to be sent, without their tokens; a row is deleted when its mail is accepted';
    COMMENT ON COLUMN mail_requests.kind IS 
      'the name of the text, such as password_reset (src/domain/mail/templates.ts); registration: an account is asked for';
    COMMENT ON COLUMN mail_requests.recipient IS 'canonical address; without a user_id it may have no account';
    COMMENT ON COLUMN mail_requests.user_id IS 'the user who asked while logged in; null: an anonymous client asked';
    COMMENT ON COLUMN mail_requests.next_attempt_at IS
      'when a worker may take the row; it is moved ahead while one has it';
    COMMENT ON COLUMN mail_requests.networks IS
      'IPv4 addresses and IPv6 /48 that asked for the mail, the newest first';

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
    COMMENT ON TABLE one_time_tokens IS
      'tokens that were mailed or handed over; a row is deleted when its token is used';
    COMMENT ON COLUMN one_time_tokens.purpose IS
      'password_reset, operator_password_reset, account_invitation, email_verification or email_change';
    COMMENT ON COLUMN one_time_tokens.digest IS 'SHA-256 of the token';
    COMMENT ON COLUMN one_time_tokens.email IS
      'the address that the token was sent to; null: an operator hands it over';

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
  `;

  readonly drop = `
    DROP TABLE one_time_tokens, mail_requests;
    DROP FUNCTION void_one_time_tokens() CASCADE;
  `;
}
