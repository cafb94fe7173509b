import { Command } from 'commander';
import { EXIT_CODES } from './command-options.js';
import { addCompletionCommand } from './completion.command.js';
import { reportFailure } from './failures.js';
import type { Output } from './terminal.js';
import { addDevCommand } from './dev/dev.command.js';
import { addApplyCommand } from './platform/apply.command.js';
import { addAcknowledgeCommand, addCheckpointCommand, addVerifyCommand } from './database/audit-seals.command.js';
import {
  addExportCommand,
  addImportCommand,
  addKeysCommands,
  addMigrateCommand,
} from './database/database.commands.js';
import { addInitCommand, addSchemaCommand } from './platform/init.command.js';
import { addAuditCommand, addAuditExportCommand } from './remote/audit.command.js';
import { addAppsCommands } from './remote/apps.command.js';
import { addDoctorCommand } from './platform/doctor.command.js';
import { addEventsCommands } from './remote/events.command.js';
import { addExplainCommands } from './remote/explain.command.js';
import { addHouseholdsCommands } from './remote/households.command.js';
import { addLeakedCommand } from './remote/leaked.command.js';
import { addMapCommand } from './remote/map.command.js';
import { addNodesCommands } from './remote/nodes.command.js';
import { addOperatorsCommands } from './remote/operators.command.js';
import { addReplayCommand } from './remote/replay.command.js';
import { addStatusCommand } from './remote/status.command.js';
import { addUsersCommands } from './remote/users.command.js';

/**
 * @returns all commands. Each imports TypeORM or the YAML parser only when it runs, because loading them is slow on a
 * small device.
 */
export function createProgram(version: string, output: Output): Command {
  const root = new Command('platform-auth')
    .description('Operate the authentication service.')
    .version(version, '--version', 'print the version')
    .option('--json', 'print the result as JSON, for scripts')
    .configureHelp({
      showGlobalOptions: true,
      optionTerm: ({ flags, mandatory }) => (mandatory ? `${flags} (required)` : flags),
    })
    .addHelpText('after', `\n${EXIT_CODES}\nEach command's --help names the variables that it needs.`)
    .showHelpAfterError('(see platform-auth --help)')
    // No suggestion, because the most similar word may revoke or delete.
    .showSuggestionAfterError(false)
    .configureOutput(output.json ? { writeErr: () => undefined } : {})
    .exitOverride();
  addDevCommand(root);
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
  addHouseholdsCommands(root);
  addOperatorsCommands(root);
  addExplainCommands(root);
  addStatusCommand(root);
  addMapCommand(root);
  addLeakedCommand(root);
  const audit = addAuditCommand(root);
  addVerifyCommand(audit);
  addAcknowledgeCommand(audit);
  addCheckpointCommand(audit);
  addAuditExportCommand(audit);
  addEventsCommands(root);
  addReplayCommand(root);
  addSchemaCommand(root);
  addCompletionCommand(root);
  return root;
}

/**
 * Runs one command line, and reports on standard error why it failed.
 * @param onError may end the process, which a connection that is still being opened would keep alive
 * @returns the exit code
 */
export async function runCommand(
  version: string,
  parameters: readonly string[],
  onError: (error: unknown, exitCode: number) => void = () => undefined,
): Promise<number> {
  // Searched in the raw parameters, so that --json counts even in a command line that cannot be parsed.
  const output = { json: parameters.includes('--json') };
  try {
    await createProgram(version, output).parseAsync(rewriteHelp(parameters), { from: 'user' });
    return 0;
  } catch (error) {
    const exitCode = reportFailure(error, output);
    onError(error, exitCode);
    return exitCode;
  }
}

/** Commander's own `help` takes the name of one command: `help nodes issue` would print the help of `nodes`. */
function rewriteHelp(parameters: readonly string[]): readonly string[] {
  const [first, ...path] = parameters;
  return first === 'help' && path.length > 1 ? [...path, '--help'] : parameters;
}
