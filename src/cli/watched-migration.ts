import { StartWatch } from '../common/start-watch.js';
import { migrate } from '../database/migrate.js';
import { say } from './terminal.js';

/**
 * Applies missing migrations, says on standard error what it waits for, and gives up when it makes no progress.
 * @returns the names of the applied migrations
 */
export async function migrateWatched(databaseUrl: string): Promise<string[]> {
  const watch = new StartWatch(undefined, ({ step, seconds }) => say(`Waiting for ${step} (${seconds} s) …`));
  return watch.limit(migrate(databaseUrl, watch));
}
