import { setInterval as every } from 'node:timers/promises';
import { Client, type QueryConfig } from 'pg';
import type { EntityManager } from 'typeorm';

/** Advisory locks that all processes share. The numbers are arbitrary, but distinct. */
export const LOCKS = {
  migrations: 7_701_001,
  purge: 7_701_002,
  init: 7_701_003,
  auditPartitions: 7_701_004,
  auditSeals: 7_701_005,
  signingKeys: 7_701_006,
  totpSecrets: 7_701_007,
  events: 7_701_008,
} as const;

/** Begins like the driver's message about a lost connection, so that `isDatabaseFailure` treats it as an outage. */
const LOST = 'Connection terminated, and the lock with it: another process may be at the same work';
export const KEEP_ALIVE = { keepAlive: true, keepAliveInitialDelayMillis: 10_000 };
/** PostgreSQL ends a session that is silent for `maxSilenceMs`, which dropped packets could keep for hours. */
const HEARTBEAT = { intervalMs: 5_000, timeoutMs: 10_000, maxSilenceMs: 30_000 };

/** Takes a lock until the transaction ends. @returns false at once when another transaction holds it */
export async function tryLock(transaction: EntityManager, lock: number): Promise<boolean> {
  const [row] = await transaction.query<{ mine: boolean }[]>('SELECT pg_try_advisory_xact_lock($1) AS mine', [lock]);
  return row?.mine === true;
}

/**
 * A mutex that all processes share: the second one waits. The lock ends with its connection, so a killed process never
 * keeps it.
 * @param work must check the signal between its steps and stop once the lock is lost; then the call fails
 * @param onWait called once when another process holds the lock
 */
export async function withAdvisoryLock<Result>(
  databaseUrl: string,
  lock: number,
  work: (lost: AbortSignal) => Promise<Result>,
  onWait: () => void = () => undefined,
  { intervalMs, timeoutMs, maxSilenceMs } = HEARTBEAT,
): Promise<Result> {
  const lost = new AbortController();
  const holder = new Client({ connectionString: databaseUrl, connectionTimeoutMillis: 5_000, ...KEEP_ALIVE });
  const lose = (cause?: Error): void => lost.abort(new Error(LOST, { cause }));
  holder.on('error', lose);
  holder.on('end', () => lose());
  const ended = new AbortController();
  await holder.connect();
  try {
    await holder.query(`SELECT set_config('idle_session_timeout', $1, false)`, [String(maxSilenceMs)]);
    const tried = await holder.query<{ mine: boolean }>('SELECT pg_try_advisory_lock($1) AS mine', [lock]);
    if (!tried.rows[0]?.mine) {
      onWait();
      await holder.query('SELECT pg_advisory_lock($1)', [lock]);
    }
    const heartbeat = { text: 'SELECT 1', query_timeout: timeoutMs } as QueryConfig;
    void sendRepeatedly(holder, heartbeat, intervalMs, ended.signal).catch(lose);
    const result = await work(lost.signal);
    lost.signal.throwIfAborted();
    return result;
  } finally {
    ended.abort();
    // Destroying the socket releases the lock even when PostgreSQL does not answer.
    const destroySocket = (): void => void holder.connection.stream.destroy();
    const endTimeout = setTimeout(destroySocket, lost.signal.aborted ? 0 : timeoutMs);
    await holder.end();
    clearTimeout(endTimeout);
  }
}

/** Rejects when PostgreSQL does not answer a statement in time. */
async function sendRepeatedly(client: Client, query: QueryConfig, intervalMs: number, end: AbortSignal): Promise<void> {
  for await (const statement of every(intervalMs, query, { signal: end })) await client.query(statement);
}
