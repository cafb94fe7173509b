import { eventually } from '../../tools/eventually.js';
import type { TestDatabase } from './test-database.js';

/** Ends the connection that holds an advisory lock, as an administrator or a failover would. */
export async function endLockHolder(database: TestDatabase, lock: number): Promise<void> {
  const held = `FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid = ${lock}
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
  await database.query(`SELECT pg_terminate_backend(pid) ${held}`);
  await eventually('the lock is free', async () => (await database.query(`SELECT 1 ${held}`)).length === 0);
}
