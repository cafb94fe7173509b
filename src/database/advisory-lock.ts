import { Client } from 'pg';

/**
 * Does one thing at a time over the whole platform: whoever comes second waits. The lock ends with its connection, so
 * a process that is killed never leaves it behind.
 * @param lock arbitrary, and the same in every process that must take turns
 * @param onWait called once when somebody else holds the lock
 */
export async function withAdvisoryLock<Result>(
  databaseUrl: string,
  lock: number,
  work: () => Promise<Result>,
  onWait: () => void = () => undefined,
): Promise<Result> {
  const holder = new Client({ connectionString: databaseUrl, connectionTimeoutMillis: 5_000 });
  // Losing this connection makes a query fail, which is where it is reported.
  holder.on('error', () => undefined);
  await holder.connect();
  try {
    const tried = await holder.query<{ mine: boolean }>('SELECT pg_try_advisory_lock($1) AS mine', [lock]);
    if (!tried.rows[0]?.mine) {
      onWait();
      await holder.query('SELECT pg_advisory_lock($1)', [lock]);
    }
    return await work();
  } finally {
    await holder.end();
  }
}
