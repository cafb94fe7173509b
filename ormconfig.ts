import { DataSource } from 'typeorm';
import { readVariables } from './src/config/environment.js';
import { databaseUrlOf } from './src/config/single-variables.js';
import { migrationOptions } from './src/database/database-options.js';

/** The DataSource of the TypeORM command line. */
export default new DataSource(migrationOptions(databaseUrl()));

function databaseUrl(): string {
  try {
    return databaseUrlOf(readVariables());
  } catch (error) {
    console.error((error as Error).message);
    process.exit(1);
  }
}
