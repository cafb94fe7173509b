import { DataSource } from 'typeorm';
import { databaseUrlOf, readVariables } from './src/config/environment.js';
import { migrationOptions } from './src/database/database-options.js';

/** The DataSource of the TypeORM command line. */
export default new DataSource(migrationOptions(databaseUrlOf(readVariables())));
