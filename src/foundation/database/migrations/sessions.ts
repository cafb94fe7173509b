// Sessions of users: one row for each login and all rotations of its refresh token.

import { SqlMigration } from '../sql-migration.js';

export class CreateSessions1795651200002 extends SqlMigration {
  readonly create = () => `
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
    COMMENT ON COLUMN sessions.token_digest IS
      'SHA-256 of the refresh token of this generation, the only one that is current';
    COMMENT ON COLUMN sessions.rotated_at IS
      'start of the refresh grace: the rotation, or the moment at which a slow commit of it became visible';
    COMMENT ON COLUMN sessions.end_reason IS
      'logout, owner, password_changed, password_reset, second_factor_added, reuse, admin, disabled or session_limit';
    COMMENT ON COLUMN sessions.rotated_from IS
      'network that the last rotation was requested from: an IPv4 address, or an IPv6 /64';
    COMMENT ON COLUMN sessions.elsewhere_generation IS
      'generation whose repeat from another network is in the audit log: one row a rotation';
    COMMENT ON COLUMN sessions.created_from IS 'network of the login: an IPv4 address, or an IPv6 /64';
    COMMENT ON COLUMN sessions.user_agent IS 'User-Agent of the login: printable ASCII, at most 200 characters';
    COMMENT ON COLUMN sessions.amr IS 'how the user authenticated at the login (RFC 8176)';
  `;

  readonly drop = 'DROP TABLE sessions';
}
