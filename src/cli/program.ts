import { Command } from 'commander';
import { EXIT_CODES } from './command-options.js';
import { createCompletionCommand } from './completion.command.js';
import { reportFailure } from './failures.js';
import type { Output } from './output.js';
import { createCheckpointCommand, createVerifyCommand } from './platform/audit-seals.command.js';
import { createKeysCommand } from './platform/keys.command.js';
import { createDoctorCommand, createInitCommand, createMigrateCommand } from './platform/platform-commands.js';
import { createExportCommand, createImportCommand } from './platform/user-transfer.command.js';
import { createAuditCommand } from './remote/audit.command.js';
import { createAppsCommand, createOperatorsCommand } from './remote/credentials.command.js';
import { createExplainCommand } from './remote/explain.command.js';
import { createMapCommand } from './remote/map.command.js';
import { createNodesCommand } from './remote/nodes.command.js';
import { createStatusCommand } from './remote/status.command.js';
import { createUsersCommand } from './remote/users.command.js';

/**
 * @returns all commands. What only one of them needs (TypeORM, the parser of YAML) is loaded when that one runs: a node on
 * a slow device should not pay for it.
 */
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
  const commands = [
    createInitCommand(),
    createDoctorCommand(),
    createMigrateCommand(),
    createKeysCommand(),
    createNodesCommand(),
    createAppsCommand(),
    createUsersCommand().addCommand(createImportCommand()).addCommand(createExportCommand()),
    createOperatorsCommand(),
    createExplainCommand(),
    createStatusCommand(),
    createMapCommand(),
    createAuditCommand().addCommand(createVerifyCommand()).addCommand(createCheckpointCommand()),
    createCompletionCommand(),
  ];
  for (const command of commands) addWithSettings(root, command);
  return root;
}

/** Commander copies settings to a subcommand only when the parent creates it; these are created on their own. */
function addWithSettings(parent: Command, child: Command): void {
  if (child.parent === null) parent.addCommand(child);
  child.copyInheritedSettings(parent);
  for (const grandchild of child.commands) addWithSettings(child, grandchild);
}

/**
 * Runs one command line, and reports on standard error why it failed.
 * @param onError may end the process, which a connection that the command still waits for would keep alive
 * @returns the exit code
 */
export async function runCommand(
  version: string,
  parameters: readonly string[],
  onError: (error: unknown, exitCode: number) => void = () => undefined,
): Promise<number> {
  // --json counts wherever it stands, also in a command line that cannot be parsed.
  const output = { json: parameters.includes('--json') };
  try {
    await createProgram(version, output).parseAsync(parameters, { from: 'user' });
    return 0;
  } catch (error) {
    const exitCode = reportFailure(error, output);
    onError(error, exitCode);
    return exitCode;
  }
}
