import { Cleanup } from '../../../tools/cleanup.js';
import { startPostgres } from '../../../tools/postgres.js';

const cleanup = new Cleanup();

/** Starts the PostgreSQL of one test run. It may lose its data. @returns a superuser's URL */
export async function startRunDatabase(): Promise<string> {
  const settings = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off', max_connections: '300' };
  return (await startPostgres({ cleanup, purpose: 'test', settings })).url();
}

/** Stops what was started, and deletes its data. */
export function removeRunDatabase(): Promise<void> {
  return cleanup.run();
}
