#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { StartTimeoutError } from '../common/start-watch.js';
import { InvalidEnvironmentError } from '../config/environment.js';
import { appsCommand } from './remote/apps.command.js';
import { auditCommand } from './remote/audit.command.js';
import { checkpointCommand, verifyCommand } from './platform/audit-seals.command.js';
import { doctorCommand } from './platform/doctor.command.js';
import { explainCommand } from './remote/explain.command.js';
import { initCommand } from './platform/init.command.js';
import { migrateCommand } from './migrate.command.js';
import { nodesCommand } from './remote/nodes.command.js';
import { CommandFailed, say } from './terminal.js';
import { usersCommand } from './remote/users.command.js';

const { version } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
  readonly version: string;
};
const FAILED = 1;
const WRONG_USAGE = 2;

function program(): Command {
  const root = new Command('platform-auth')
    .description("The operator's side of the authentication service.")
    .version(version, '--version', 'print the version')
    .option('--json', 'print the result as JSON, for scripts')
    .configureHelp({ showGlobalOptions: true })
    .showHelpAfterError('(--help tells more)')
    .exitOverride();
  // What these do is loaded when they run: it takes a second that a node, asking over HTTP, need not wait.
  const onTheDatabase = [initCommand(), doctorCommand(), migrateCommand()];
  const audit = auditCommand().addCommand(verifyCommand()).addCommand(checkpointCommand());
  const overHttp = [nodesCommand(), appsCommand(), usersCommand(), explainCommand(), audit];
  for (const command of [...onTheDatabase, ...overHttp]) adopt(root, command);
  return root;
}

/** Lets a command, and those below it, behave as its parent does. */
function adopt(parent: Command, child: Command): void {
  if (child.parent === null) parent.addCommand(child);
  child.copyInheritedSettings(parent);
  for (const grandchild of child.commands) adopt(child, grandchild);
}

async function main(): Promise<number> {
  try {
    await program().parseAsync();
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USAGE;
    if (error instanceof CommandFailed || error instanceof InvalidEnvironmentError) say(error.message);
    else say(`It failed: ${error instanceof Error ? error.message : String(error)}`);
    // What it waited for would keep the process alive.
    if (error instanceof StartTimeoutError) process.exit(FAILED);
    return FAILED;
  }
}

process.exitCode = await main();
