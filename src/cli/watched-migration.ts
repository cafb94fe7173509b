import { StartWatch } from '../common/start-watch.js';
import { migrate } from '../database/migrate.js';
import { say } from './terminal.js';

/**
 * Brings the schema up to date, says on standard error what it waits for, and ends a wait without progress.
 * @returns the names of the migrations that were run
 */
export async function migrateWatched(databaseUrl: string): Promise<string[]> {
  const watch = new StartWatch(undefined, ({ step, seconds }) => say(`Waiting for ${step} (${seconds} s) …`));
  return watch.limit(migrate(databaseUrl, watch));
}
