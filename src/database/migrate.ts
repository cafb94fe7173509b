import { Client } from 'pg';
import { DataSource } from 'typeorm';
import { migrationOptions } from './database-options.js';

/** Arbitrary, and the same in every replica. */
const MIGRATION_LOCK = 7_701_001;

/**
 * Brings the schema up to date. Replicas that start together wait for the first one, then find nothing to do.
 * @returns the names of the migrations that were run
 */
export async function migrate(databaseUrl: string): Promise<string[]> {
  const lockHolder = new Client({ connectionString: databaseUrl, connectionTimeoutMillis: 5_000 });
  // Losing this connection makes a query fail, which is where it is reported.
  lockHolder.on('error', () => undefined);
  await lockHolder.connect();
  try {
    await lockHolder.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK]);
    const dataSource = await new DataSource(migrationOptions(databaseUrl)).initialize();
    try {
      return (await dataSource.runMigrations({ transaction: 'all' })).map(({ name }) => name);
    } finally {
      await dataSource.destroy();
    }
  } finally {
    await lockHolder.end();
  }
}
