import { startRunDatabase } from './run-database.js';

/** One PostgreSQL for the whole run: TEST_DATABASE_URL (a superuser's), or an embedded one. */
export default async function setup(): Promise<void> {
  if (!process.env.TEST_DATABASE_URL) process.env.TEST_DATABASE_URL = await startRunDatabase();
}
