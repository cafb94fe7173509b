import { Argument, type Command, type Option } from 'commander';

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
export function addCompletionCommand(root: Command): void {
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
