import { DataSource } from 'typeorm';
import { parseVariable, readVariables } from './src/foundation/config/environment.js';
import { createMigrationOptions } from './src/foundation/database/migrate.js';

/** The DataSource of the TypeORM command line. */
export default new DataSource(createMigrationOptions(databaseUrl()));

function databaseUrl(): string {
  try {
    return parseVariable(readVariables(), 'DATABASE_URL');
  } catch (error) {
    console.error((error as Error).message);
    process.exit(1);
  }
}
