import { readFileSync } from 'node:fs';
import { text as readText } from 'node:stream/consumers';
import { InvalidArgumentError, Option, type Command } from 'commander';
import { addRemote, createClient, readOptions, readRemoteVariables } from '../remote/remote-command.js';
import { addYes, createConfirm, CommandFailedError, print, say } from '../terminal.js';
import type { ApplyReport } from './apply.js';
import { createMapOption, readMap } from './init.command.js';
import { formatReport } from './plan-report.js';
import type { Documents } from './secret-documents.js';

type ApplyOptions = Readonly<{
  map: string;
  plan: boolean;
  yes: boolean;
  prune?: number | true;
  rotate?: string | true;
  rotateLost?: string | true;
  to: Documents['format'];
  output?: string;
  current?: string;
  rootKey: boolean;
}>;

/** `platform-auth apply`: what `init` does with app credentials, over HTTP; see docs/platform.md. */
export function addApplyCommand(root: Command): void {
  const description =
    'Make the keys of the calls in the map, over HTTP and without the database. Prints its plan and asks. Idempotent.';
  const needs = `Needs ADMIN_API_KEY or ADMIN_API_KEY_FILE, the key of an operator with the scope apps.
Without --output the documents go to standard output, and all else to standard error. Keep them until they
are in use: if they get lost, give --current and --rotate-lost, which makes those keys again.
A key is shown once: where it is not found in --output or --current, its credential is left as it is.`;
  const example = '--map platform.yaml --to kubernetes --current in-use.yaml > secrets.yaml';
  addYes(addRemote(root, 'apply', description, example, needs))
    .addOption(createMapOption())
    .option('--plan', 'print what would be done; exit code 0 when that is nothing, 3 when it is something', false)
    .addOption(
      new Option('--to <format>', 'of the documents, one for each service that calls another one')
        .choices(['env', 'kubernetes', 'json'] satisfies Documents['format'][])
        .default('env'),
    )
    .option('--output <folder>', 'write them into this folder, readable by their owner only; needed for env')
    .addOption(
      new Option(
        '--current <file>',
        'the documents in use, which are completed and printed again; - reads standard input',
      ).conflicts('output'),
    )
    .option('--prune [count]', 'revoke the live credentials of pairs that are not in the map: this many', toCount)
    .option('--rotate [service]', 'make new keys for the calls of this service, or of all; the old ones work for a day')
    .option('--rotate-lost [service]', 'make new keys for this service, or for all, where a key cannot be read')
    .option('--root-key', 'use the ADMIN_API_KEY of the service itself, which may do everything', false)
    .action(runApply);
}

async function runApply(options: ApplyOptions, command: Command): Promise<void> {
  const { map: path, plan: isPlan, to: format, output: folder, prune, rotate, rotateLost, yes } = options;
  if (format === 'env' && folder === undefined) command.error('error: --to env needs --output');
  const isStream = folder === undefined && !isPlan;
  if (isStream && process.stdout.isTTY)
    throw new CommandFailedError('Keys are not printed on a terminal: give --output, or a pipe.', 'is_terminal');
  const confirm = createConfirm(command);
  const { apply, hasChanges } = await import('./apply.js');
  const keyToCheck = options.rootKey ? undefined : readRemoteVariables().ADMIN_API_KEY;
  const report = await apply(createClient(command), {
    keyToCheck,
    map: await readMap(path),
    documents: { format, folder, current: await readCurrent(options) },
    ...{ prune, isPlan, yes, rotate: toChoice(rotate), rotateLost: toChoice(rotateLost) },
    confirm: (intended) => confirm(`${formatApplyReport(intended)}\n\n`),
  });
  if (isStream) say(readOptions(command).json ? JSON.stringify(report) : formatApplyReport(report));
  else print(command, report, formatApplyReport);
  if (isPlan && hasChanges(report))
    throw new CommandFailedError('Something would change: run this without --plan.', 'would_change', 3);
  // A mistyped folder, or a pipeline that passes no documents, must fail. Only a plan works without documents.
  const hasSource = folder !== undefined || options.current !== undefined;
  const isLost = report.pairs.length > 0 && report.pairs.every(({ action }) => action === 'lost');
  if (isLost && (hasSource || !isPlan))
    throw new CommandFailedError(
      `${describeDocuments(options)} If the keys are lost, run this again with --rotate-lost.`,
      'key_unreadable',
    );
}

/** Words for documents that hold none of the keys. */
function describeDocuments({ output, current }: ApplyOptions): string {
  if (output !== undefined) return `${output} holds none of the keys. Is --output right?`;
  return current === undefined
    ? 'The keys are in documents that were not given: name them with --current.'
    : 'The documents of --current hold none of the keys. Are they those in use?';
}

/** An option without a value means all services. */
function toChoice(service: string | true | undefined): string | undefined {
  return service === true ? 'all' : service;
}

function toCount(text: string): number {
  if (!/^\d{1,6}$/.test(text)) throw new InvalidArgumentError('It must be the number of credentials to revoke.');
  return Number(text);
}

async function readCurrent({ current }: ApplyOptions): Promise<string | undefined> {
  if (current === undefined) return undefined;
  return current === '-' ? readText(process.stdin) : readFileSync(current, 'utf8');
}

function formatApplyReport(report: ApplyReport): string {
  const { issued, scoped, rotated, revoked, left_alone } = report.summary;
  const counts = `Issued: ${issued}. Scoped: ${scoped}. Rotated: ${rotated}. Revoked: ${revoked}. Left alone: ${left_alone}.`;
  return `${formatReport(report, 'Documents and keys')}\n\n${counts}`;
}
