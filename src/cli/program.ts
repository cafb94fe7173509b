import { Command } from 'commander';
import { EXIT_CODES } from './command-options.js';
import { addCompletionCommand } from './completion.command.js';
import { reportFailure } from './failures.js';
import { refuseNullOutput, type Output } from './terminal.js';
import { addApplyCommand } from './remote/apply.command.js';
import { addCheckpointCommand, addVerifyCommand } from './platform/audit-seals.command.js';
import { addKeysCommands } from './platform/keys.command.js';
import { addInitCommand, addMigrateCommand, addSchemaCommand } from './platform/platform-commands.js';
import { addExportCommand, addImportCommand } from './platform/user-transfer.command.js';
import { addAuditCommand, addAuditExportCommand } from './remote/audit.command.js';
import { addAppsCommands, addOperatorsCommands } from './remote/credentials.command.js';
import { addDoctorCommand } from './remote/doctor.command.js';
import { addExplainCommands } from './remote/explain.command.js';
import { addLeakedCommand } from './remote/leaked.command.js';
import { addMapCommand } from './remote/map.command.js';
import { addNodesCommands } from './remote/nodes.command.js';
import { addReplayCommand } from './remote/replay.command.js';
import { addStatusCommand } from './remote/status.command.js';
import { addUsersCommands } from './remote/users.command.js';

/** They print a key once, unless --config names a file for it. */
const PRINT_KEYS = 'apps issue|apps rotate|operators issue|operators rotate|nodes register|nodes rotate'.split('|');

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
    // The most similar word may revoke or delete.
    .showSuggestionAfterError(false)
    .configureOutput(output.json ? { writeErr: () => undefined } : {})
    .hook('preAction', (_root, command) => {
      const name = `${command.parent?.name()} ${command.name()}`;
      if (PRINT_KEYS.includes(name) && command.getOptionValue('config') === undefined) refuseNullOutput();
    })
    .exitOverride();
  addInitCommand(root);
  addApplyCommand(root);
  addDoctorCommand(root);
  addMigrateCommand(root);
  addKeysCommands(root);
  addNodesCommands(root);
  addAppsCommands(root);
  const users = addUsersCommands(root);
  addImportCommand(users);
  addExportCommand(users);
  addOperatorsCommands(root);
  addExplainCommands(root);
  addStatusCommand(root);
  addMapCommand(root);
  addLeakedCommand(root);
  const audit = addAuditCommand(root);
  addVerifyCommand(audit);
  addCheckpointCommand(audit);
  addAuditExportCommand(audit);
  addReplayCommand(root);
  addSchemaCommand(root);
  addCompletionCommand(root);
  return root;
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
