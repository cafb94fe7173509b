#!/usr/bin/env node
import { Command, CommanderError } from 'commander';
import { InvalidEnvironment } from '../config/environment.js';
import { doctorCommand } from './doctor.command.js';
import { initCommand } from './init.command.js';
import { migrateCommand } from './migrate.command.js';
import { CommandFailed, say } from './terminal.js';

const FAILED = 1;
const WRONG_USAGE = 2;

function program(): Command {
  const root = new Command('platform-auth')
    .description("The operator's side of the authentication service.")
    .option('--json', 'print the result as JSON, for scripts')
    .showHelpAfterError('(--help tells more)')
    .exitOverride();
  for (const command of [migrateCommand(), initCommand(), doctorCommand()])
    root.addCommand(command.copyInheritedSettings(root));
  return root;
}

async function main(): Promise<number> {
  try {
    await program().parseAsync();
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USAGE;
    if (error instanceof CommandFailed || error instanceof InvalidEnvironment) say(error.message);
    else say(`It failed: ${error instanceof Error ? error.message : String(error)}`);
    return FAILED;
  }
}

process.exitCode = await main();
