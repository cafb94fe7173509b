// Refuses a database that answers but cannot be used: a standby, or a pooler that shares sessions (decision 42). A
// refusal becomes a 503. test/foundation/database/servers.process.spec.ts and outages.spec.ts fail without it.

import { Client, type ClientBase } from 'pg';

/** A standby lags behind its primary, so a key that was revoked may still be valid there. */
export class StandbyError extends Error {
  override readonly name = 'StandbyError';

  constructor() {
    super('the database is a standby (in recovery). DATABASE_URL must lead to the primary');
  }
}

/** Sessions that a pooler shares lose prepared statements, advisory locks and LISTEN. */
class SharedSessionsError extends Error {
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

/** One round could miss a pooler, because its other clients take and return sessions meanwhile. */
const PROBE_ROUNDS = 5;
const ANSWER_TIMEOUT_MS = 5_000;

/** @param rows the answer to {@link IS_STANDBY} */
export function refuseStandby(rows: readonly StandbyRow[]): void {
  if (rows[0]?.isStandby !== false) throw new StandbyError();
}

/** Settings that the service relies on. The server, the database or the role may have other defaults. */
const SETTINGS = {
  datestyle: 'ISO',
  default_transaction_isolation: 'read committed',
  // For statements whose plan looks expensive, compiling takes longer than running them.
  jit: 'off',
};

/**
 * Refuses a standby once for each connection, because a primary becomes a standby only by a restart, which ends its
 * connections. Sets the timeouts again, because PgBouncer may drop them (`ignore_startup_parameters`).
 * @returns the `onConnect` of the pool
 */
export function prepareConnection(statementMs: number, idleInTransactionMs: number) {
  const settings = Object.entries(SETTINGS).map(([name, value]) => `set_config('${name}', '${value}', false)`);
  const text = `SELECT pg_is_in_recovery() AS "isStandby", set_config('statement_timeout', $1, false),
    set_config('lock_timeout', $1, false),
    set_config('idle_in_transaction_session_timeout', $2, false), ${settings.join(', ')}`;
  const values = [String(statementMs), String(idleInTransactionMs)];
  return async (client: ClientBase): Promise<void> => {
    try {
      refuseStandby((await client.query<StandbyRow>(text, values)).rows);
    } catch (error) {
      // `end` would make the request wait for PostgreSQL's answer.
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
    // PostgreSQL announces the process id of the backend, and a pooler one that it made up.
    const { processID } = client as unknown as { processID: number };
    if ((await readBackendPid(client)) === processID) return;
    await withClient(databaseUrl, (other) => refuseSharedSessions(client, other));
  });
}

/** Without a pooler that shares sessions, two open connections keep two different backends. */
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

/** Runs short statements on a connection of its own, with timeouts. */
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
