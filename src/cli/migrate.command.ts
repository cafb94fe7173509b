import { Command } from 'commander';
import { parseDatabaseUrl, readVariables } from '../config/environment.js';
import { print, type Output } from './terminal.js';

/** `platform-auth migrate`: brings the schema up to date, as the service's start does. */
export function migrateCommand(): Command {
  return new Command('migrate')
    .description('Bring the database schema up to date. Needs DATABASE_URL.')
    .addHelpText('after', '\nExample:\n  DATABASE_URL=postgresql://… platform-auth migrate')
    .action(async (_options, command: Command) => {
      const { migrateWatched } = await import('./watched-migration.js');
      const names = await migrateWatched(parseDatabaseUrl(readVariables()));
      print(command.optsWithGlobals<Output>(), { migrations: names }, ({ migrations }) =>
        migrations.length === 0 ? 'The schema is up to date.' : `Applied: ${migrations.join(', ')}`,
      );
    });
}
