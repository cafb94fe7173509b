import { Client } from 'pg';

/** Begins as the driver's own messages about a lost connection do, and is taken for what those are: an outage. */
const LOST = 'Connection terminated, and the lock with it: somebody else may be at the same work';
const KEEP_ALIVE_MS = 10_000;

/**
 * Does one thing at a time over the whole platform: whoever comes second waits. The lock ends with its connection, so
 * a process that is killed never leaves it behind. When the connection is lost, so is the lock: the call fails, but not
 * before the work has ended, which would go on behind its caller's back.
 * @param lock one of LOCKS
 * @param work looks at the signal between its steps, and does no more of them once the lock is lost
 * @param onWait called once when somebody else holds the lock
 */
export async function withAdvisoryLock<Result>(
  databaseUrl: string,
  lock: number,
  work: (lost: AbortSignal) => Promise<Result>,
  onWait: () => void = () => undefined,
): Promise<Result> {
  const lost = new AbortController();
  const holder = new Client({
    connectionString: databaseUrl,
    connectionTimeoutMillis: 5_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
  });
  const lose = (cause?: Error): void => lost.abort(new Error(LOST, { cause }));
  holder.on('error', lose);
  holder.on('end', () => lose());
  await holder.connect();
  try {
    const tried = await holder.query<{ mine: boolean }>('SELECT pg_try_advisory_lock($1) AS mine', [lock]);
    if (!tried.rows[0]?.mine) {
      onWait();
      await holder.query('SELECT pg_advisory_lock($1)', [lock]);
    }
    const result = await work(lost.signal);
    lost.signal.throwIfAborted();
    return result;
  } finally {
    await holder.end();
  }
}
