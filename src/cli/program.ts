import { Argument, Command, type Option } from 'commander';
import { EXIT_CODES } from './command-options.js';
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
    .configureHelp({ showGlobalOptions: true })
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
    await createProgram(version, output).parseAsync(parameters, { from: 'user' });
    return 0;
  } catch (error) {
    const exitCode = reportFailure(error, output);
    onError(error, exitCode);
    return exitCode;
  }
}

/** The subcommands and options of one command. */
interface Words {
  /** Without the name of the program: `nodes list`. Empty for the program itself. */
  readonly path: string;
  readonly subcommands: readonly { readonly name: string; readonly description: string }[];
  readonly options: readonly { readonly flag: string; readonly description: string }[];
}

const SHELLS = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof SHELLS)[number];

/** `platform-auth completion`: a shell script, generated from the commands. */
function addCompletionCommand(root: Command): void {
  root
    .command('completion')
    .description('Print the completion of a shell.')
    .addArgument(new Argument('<shell>', 'the shell').choices(SHELLS))
    .addHelpText(
      'after',
      '\nExample:\n  source <(platform-auth completion bash)\n  platform-auth completion fish | source',
    )
    .action((shell: Shell) => {
      process.stdout.write(SCRIPTS[shell](listWords(root, '', root.options)));
    });
}

function listWords(command: Command, path: string, inherited: readonly Option[]): Words[] {
  const help = command.createHelp();
  const subcommands = help.visibleCommands(command).filter((each) => each.name() !== 'help');
  const options = [...new Set([...help.visibleOptions(command), ...inherited])];
  const words: Words = {
    path,
    subcommands: subcommands.map((each) => ({ name: each.name(), description: each.description() })),
    options: options.map(({ long, flags, description }) => ({ flag: long ?? flags, description })),
  };
  return [words, ...subcommands.flatMap((each) => listWords(each, `${path} ${each.name()}`.trim(), inherited))];
}

const SCRIPTS: Readonly<Record<Shell, (words: readonly Words[]) => string>> = {
  bash: (words) => `_platform_auth() {
  local path="" word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $word == -* ]] || path="$path\${path:+ }$word"
  done
  local words=""
  while [[ -n $path || -z $words ]]; do
    case "$path" in
${words.map(({ path, ...rest }) => `      "${path}") words="${listNames(rest).join(' ')}" ;;`).join('\n')}
    esac
    [[ -n $words || -z $path ]] && break
    [[ $path == *" "* ]] && path="\${path% *}" || path=""
  done
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
  [[ \${#COMPREPLY[@]} -gt 0 ]] || COMPREPLY=($(compgen -f -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o filenames -F _platform_auth platform-auth
`,
  zsh: (words) => `#compdef platform-auth\nautoload -U +X bashcompinit && bashcompinit\n${SCRIPTS.bash(words)}`,
  fish: (words) => `${words.flatMap(toFish).join('\n')}\n`,
};

function listNames({ subcommands, options }: Pick<Words, 'subcommands' | 'options'>): string[] {
  return [...subcommands.map(({ name }) => name), ...options.map(({ flag }) => flag)];
}

function toFish({ path, subcommands, options }: Words): string[] {
  const seen = path.split(' ').filter((word) => word !== '');
  const isHere = seen.map((word) => `__fish_seen_subcommand_from ${word}`);
  const isFirst = path === '' ? ['__fish_use_subcommand'] : [];
  const quote = (text: string): string => `'${text.replace(/['\\]/g, '\\$&')}'`;
  const formatLine = (when: readonly string[], rest: string, description: string): string =>
    `complete -c platform-auth${when.length > 0 ? ` -n ${quote(when.join('; and '))}` : ''} ${rest} -d ${quote(description)}`;
  return [
    ...subcommands.map(({ name, description }) => formatLine([...isFirst, ...isHere], `-f -a ${name}`, description)),
    ...options.map(({ flag, description }) => formatLine(isHere, `-l ${flag.replace(/^--/, '')}`, description)),
  ];
}
