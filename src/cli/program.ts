import { Command } from 'commander';
import { createAppsCommand } from './remote/apps.command.js';
import { createAuditCommand } from './remote/audit.command.js';
import { createCheckpointCommand, createVerifyCommand } from './platform/audit-seals.command.js';
import { createCompletionCommand } from './completion.command.js';
import { createDoctorCommand, createInitCommand, createMigrateCommand } from './platform/platform-commands.js';
import { createExplainCommand } from './remote/explain.command.js';
import { createKeysCommand } from './platform/keys.command.js';
import { createNodesCommand } from './remote/nodes.command.js';
import { createOperatorsCommand } from './remote/operators.command.js';
import { createMapCommand } from './remote/map.command.js';
import { createStatusCommand } from './remote/status.command.js';
import { createExportCommand, createImportCommand } from './platform/user-transfer.command.js';
import { createUsersCommand } from './remote/users.command.js';
import { EXIT_CODES } from './command-options.js';
import type { Output } from './output.js';

/** @returns all commands */
export function createProgram(version: string, output: Output): Command {
  const root = new Command('platform-auth')
    .description('Operate the authentication service.')
    .version(version, '--version', 'print the version')
    .option('--json', 'print the result as JSON, for scripts')
    .configureHelp({ showGlobalOptions: true })
    .addHelpText('after', `\n${EXIT_CODES}\nEach command's --help names the variables that it needs.`)
    .showHelpAfterError('(see --help)')
    .configureOutput(output.json ? { writeErr: () => undefined } : {})
    .exitOverride();
  // They import TypeORM when they run: that takes a second, which a node on a slow device should not pay.
  const onDatabase = [createInitCommand(), createDoctorCommand(), createMigrateCommand(), createKeysCommand()];
  const audit = createAuditCommand().addCommand(createVerifyCommand()).addCommand(createCheckpointCommand());
  const users = createUsersCommand().addCommand(createImportCommand()).addCommand(createExportCommand());
  const overHttp = [
    createNodesCommand(),
    createAppsCommand(),
    users,
    createOperatorsCommand(),
    createExplainCommand(),
    createStatusCommand(),
    createMapCommand(),
    audit,
  ];
  for (const command of [...onDatabase, ...overHttp, createCompletionCommand()]) addWithSettings(root, command);
  return root;
}

/** Commander copies settings to a subcommand only when the parent creates it; these are created on their own. */
function addWithSettings(parent: Command, child: Command): void {
  if (child.parent === null) parent.addCommand(child);
  child.copyInheritedSettings(parent);
  for (const grandchild of child.commands) addWithSettings(child, grandchild);
}
