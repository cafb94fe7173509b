// A database that answers but cannot be used. Neither error is a verdict on a credential.

/** A standby lags behind its primary, so its data about a credential may be stale. It may be promoted soon. */
export class StandbyError extends Error {
  override readonly name = 'StandbyError';

  constructor() {
    super('the database is a standby (in recovery). DATABASE_URL must lead to the primary');
  }
}

/** Connections that share sessions lose prepared statements, advisory locks and LISTEN. */
export class SharedSessionsError extends Error {
  override readonly name = 'SharedSessionsError';

  constructor() {
    super(
      'between the service and PostgreSQL is a pooler that gives each transaction another session (PgBouncer with ' +
        'pool_mode = transaction or statement). The service needs sessions of its own, for prepared statements, ' +
        'advisory locks and LISTEN: use pool_mode = session for it, or connect directly',
    );
  }
}
