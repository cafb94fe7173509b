// Refuses a database that answers but cannot be used: a standby, or a pooler that shares sessions (decision 42). Neither is
// a verdict on a credential. Without it, test/foundation/database/servers.process.spec.ts and outages.spec.ts fail.

import { Client, type ClientBase } from 'pg';

/** A standby lags behind its primary, so that its data about a credential may be stale. */
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
    const found = 'between the service and PostgreSQL is a pooler that gives each transaction another session';
    const needed = 'The service needs sessions of its own, for prepared statements, advisory locks and LISTEN';
    const how = 'use pool_mode = session for it, or connect directly';
    super(`${found} (PgBouncer with pool_mode = transaction or statement). ${needed}: ${how}`);
  }
}

export const IS_STANDBY = 'SELECT pg_is_in_recovery() AS "isStandby"';

export interface StandbyRow {
  readonly isStandby: boolean;
}

/** More than one round, because other clients of a pooler take and return sessions meanwhile. */
const PROBE_ROUNDS = 5;
const ANSWER_TIMEOUT_MS = 5_000;

/** @param rows the answer to {@link IS_STANDBY} */
export function refuseStandby(rows: readonly StandbyRow[]): void {
  if (rows[0]?.isStandby !== false) throw new StandbyError();
}

/** Settings that the service relies on: the server, the database or the role may have other defaults. */
const SETTINGS = {
  datestyle: 'ISO',
  default_transaction_isolation: 'read committed',
  // JIT would compile statements whose forced plan looks expensive, which takes longer than running them.
  jit: 'off',
};

/**
 * Creates the pool's `onConnect`, which refuses a standby once for each connection: a primary becomes a standby only by a
 * restart, which ends them. The timeouts are set again because PgBouncer may drop them (`ignore_startup_parameters`).
 */
export function prepareConnection(statementMs: number, idleInTransactionMs: number) {
  const settings = Object.entries(SETTINGS).map(([name, value]) => `set_config('${name}', '${value}', false)`);
  const text = `SELECT pg_is_in_recovery() AS "isStandby", set_config('statement_timeout', $1, false),
    set_config('lock_timeout', $1, false), set_config('idle_in_transaction_session_timeout', $2, false), ${settings.join(', ')}`;
  const values = [String(statementMs), String(idleInTransactionMs)];
  return async (client: ClientBase): Promise<void> => {
    try {
      refuseStandby((await client.query<StandbyRow>(text, values)).rows);
    } catch (error) {
      // Not `end`, which waits for PostgreSQL while the request waits for it.
      (client as Client).connection.stream.destroy();
      throw error;
    }
  };
}

/**
 * Refuses a database that this service cannot work with, before anything is written to it.
 * @throws {StandbyError} may be retried: a standby can be promoted
 * @throws {SharedSessionsError}
 */
export async function refuseUnusable(databaseUrl: string): Promise<void> {
  await withClient(databaseUrl, async (client) => {
    refuseStandby((await client.query<StandbyRow>(IS_STANDBY)).rows);
    // A pooler announces a process id of its own, PostgreSQL that of the backend.
    const { processID } = client as unknown as { processID: number };
    if ((await readBackendPid(client)) === processID) return;
    await withClient(databaseUrl, (other) => refuseSharedSessions(client, other));
  });
}

/** Two open connections have two backends and keep them, unless a pooler lets clients share sessions. */
async function refuseSharedSessions(one: Client, other: Client): Promise<void> {
  for (let round = 0; round < PROBE_ROUNDS; round += 1) {
    const backend = await readBackendPid(one);
    if ((await readBackendPid(other)) === backend) throw new SharedSessionsError();
    await other.query('BEGIN');
    const isShared = (await readBackendPid(other)) === backend || (await readBackendPid(one)) !== backend;
    await other.query('COMMIT');
    if (isShared) throw new SharedSessionsError();
  }
}

async function readBackendPid(client: Client): Promise<number | undefined> {
  return (await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows[0]?.pid;
}

/** Runs a few short statements on a connection of their own, with timeouts. */
export async function withClient<Result>(
  databaseUrl: string,
  work: (client: Client) => Promise<Result>,
): Promise<Result> {
  const client = new Client({
    connectionString: databaseUrl,
    application_name: 'platform-auth-start',
    connectionTimeoutMillis: ANSWER_TIMEOUT_MS,
    query_timeout: ANSWER_TIMEOUT_MS,
    keepAlive: true,
  });
  client.on('error', () => undefined);
  try {
    await client.connect();
    return await work(client);
  } finally {
    // Not awaited, because a server that does not answer does not close the connection either.
    void client.end().catch(() => undefined);
  }
}
