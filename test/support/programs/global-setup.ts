import { prepareLogFolder } from './log-file.js';
import { prepareRunDatabase } from './run-database.js';

export default async function setup(): Promise<void> {
  prepareLogFolder();
  await prepareRunDatabase();
}
