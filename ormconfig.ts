import { DataSource } from 'typeorm';
import { parseDatabaseUrl, readVariables } from './src/config/environment.js';
import { createMigrationOptions } from './src/database/migrate.js';

/** The DataSource of the TypeORM command line. */
export default new DataSource(createMigrationOptions(databaseUrl()));

function databaseUrl(): string {
  try {
    return parseDatabaseUrl(readVariables());
  } catch (error) {
    console.error((error as Error).message);
    process.exit(1);
  }
}
