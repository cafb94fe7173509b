// `platform-auth leaked`: finds whose leaked keys are, and revokes them. It reads a report of gitleaks, which searches
// folders and histories (deploy/gitleaks.toml), or any text. A key leaves this process only as a digest, and is never
// printed.
import { createReadStream, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Command } from 'commander';
import * as z from 'zod';
import { parseJson } from '../../foundation/common/json.js';
import { isKeyKind, KEY_KIND_NAMES, KEY_KINDS, type KeyKindName } from '../../foundation/common/key-kinds.js';
import { computeDigest, findKeys } from '../../foundation/crypto/secret.js';
import { NEEDS_ADMIN_KEY } from '../command-options.js';
import { describeCause } from '../failures.js';
import { formatTable } from '../tables.js';
import { addYes, CommandFailedError, createConfirm, print, say } from '../terminal.js';
import type { AdminClient } from './admin-client.js';
import { identifyKeys, type IdentifiedKeys, type KnownKey } from './identify-keys.js';
import { addRemote, createClient } from './remote-command.js';

const COLUMNS = ['place', 'kind', 'verdict', 'owner', 'id', 'last_used_at', 'last_used_for'] as const;
const DROP = ['last_used_for', 'id', 'last_used_at'] as const;
/** The service's name for each kind, by the word in the prefix of the key. */
const KINDS = new Map<string, KeyKindName | 'session'>([
  ...KEY_KIND_NAMES.map((name) => [KEY_KINDS[name].keyPrefix.split('_')[1] ?? '', name] as const),
  ['rt', 'session'],
]);
/** The rule of deploy/gitleaks.toml for secrets of the service, which have no prefix of their own. */
const RULE_OF_SERVICE_SECRETS = 'platform-auth-secret';
const gitleaksReport = z.array(
  z.object({
    RuleID: z.string(),
    File: z.string(),
    StartLine: z.number(),
    Commit: z.string().default(''),
    Secret: z.string(),
  }),
);

interface Find {
  /** `file:line`, with the commit when gitleaks names one. */
  readonly place: string;
  readonly kind: string;
  /** Undefined for a secret of the service, whose digest no server stores. */
  readonly digest?: string;
}

export function addLeakedCommand(root: Command): void {
  const description = 'Tell whose keys were found in text, or by gitleaks, and whether they are live.';
  const example = '--gitleaks report.json';
  const command = addRemote(root, 'leaked [files...]', description, example, NEEDS_ADMIN_KEY);
  addYes(command)
    .option('--gitleaks <report>', 'a report of gitleaks in JSON, made with deploy/gitleaks.toml')
    .option('--revoke', 'revoke the live ones after one question; of a session, all of its user', false)
    .addHelpText(
      'after',
      '\nWithout files and without a report it reads standard input. Exit code 1 when a live key, or a secret of the service, was ' +
        'found. No secret is printed, and of a key only the digest is sent.',
    )
    .action(async (files: string[], { gitleaks, revoke }: { gitleaks?: string; revoke: boolean }) => {
      const client = createClient(command);
      const finds = gitleaks === undefined ? await findInText(files) : readReport(gitleaks);
      const known = await identifyKeys(
        client,
        finds.flatMap(({ digest }) => digest ?? []),
      );
      const rows = finds.map((find) => toRow(find, known));
      print(command, { items: rows }, () =>
        rows.length === 0 ? 'No key found.' : formatTable(COLUMNS, rows, { drop: DROP }),
      );
      const live = [...known.items.values()].filter((key) => key.live);
      if (revoke && live.length > 0) await revokeAll(command, client, live);
      const secrets = finds.filter(({ digest }) => digest === undefined).length;
      const sentences = [
        live.length > 0 &&
          `${countFound(live.length, 'live key')}${revoke ? ' and revoked' : ': add --revoke to end them'}.`,
        secrets > 0 &&
          `${countFound(secrets, 'secret')} that cannot be looked up: replace what is in use (docs/operations/keys.md).`,
      ].filter((sentence) => sentence !== false);
      if (sentences.length > 0)
        throw new CommandFailedError(sentences.join(' '), live.length > 0 ? 'live_key_found' : 'secret_found');
    });
}

function countFound(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? ' was' : 's were'} found`;
}

async function findInText(files: readonly string[]): Promise<Find[]> {
  if (files.length === 0) return findInStream('stdin', process.stdin.setEncoding('latin1'));
  const finds: Find[] = [];
  for (const file of files) {
    try {
      finds.push(...(await findInStream(file, createReadStream(file, 'latin1'))));
    } catch (error) {
      throw new CommandFailedError(`${file} cannot be read: ${describeCause(error)}.`, 'file_unreadable');
    }
  }
  return finds;
}

/** Reads line by line, because the output of `git log -p` may exceed the memory. */
async function findInStream(name: string, input: NodeJS.ReadableStream): Promise<Find[]> {
  const finds: Find[] = [];
  let number = 0;
  for await (const line of createInterface({ input })) finds.push(...findInLine(line, `${name}:${(number += 1)}`));
  return finds;
}

function findInLine(text: string, place: string): Find[] {
  return findKeys(text).flatMap(({ kind: word, key }) => {
    const kind = KINDS.get(word);
    return kind ? [{ place, kind, digest: computeDigest(key).toString('hex') }] : [];
  });
}

/** @throws {CommandFailedError} when the file is not a report of gitleaks; the message does not quote the file */
function readReport(path: string): Find[] {
  const { data } = gitleaksReport.safeParse(parseJson(readFileSync(path === '-' ? process.stdin.fd : path, 'utf8')));
  if (!data) throw new CommandFailedError(`${path} is not a report of gitleaks in JSON.`, 'file_unusable');
  const finds = data.flatMap(({ RuleID, File, StartLine, Commit, Secret }) => {
    const place = `${File}:${StartLine}${Commit === '' ? '' : ` (${Commit.slice(0, 12)})`}`;
    const keys = findInLine(Secret, place);
    const isOfService = RuleID === RULE_OF_SERVICE_SECRETS && keys.length === 0;
    return isOfService ? [{ place, kind: 'secret of the service' }] : keys;
  });
  // Several rules of gitleaks may find the same key.
  return [...new Map(finds.map((find) => [`${find.place} ${'digest' in find ? find.digest : ''}`, find])).values()];
}

function toRow({ place, kind, digest }: Find, { items, searched }: IdentifiedKeys) {
  const key = items.get(digest ?? '');
  const unlisted = searched.includes(kind) ? 'unknown' : 'not looked up: scope';
  const verdict = digest === undefined ? 'not looked up' : key ? (key.live ? 'LIVE' : 'ended') : unlisted;
  const { owner = '', id = '', last_used_at = null, last_used_for = null } = key ?? {};
  return { place, kind, verdict, owner, id, last_used_at, last_used_for };
}

/** @returns undefined for a kind that this version does not know */
function findPath({ kind, id, owner }: KnownKey): string | undefined {
  if (kind === 'session') return `/users/${owner}/sessions`;
  return isKeyKind(kind) ? `${KEY_KINDS[kind].path}/${id}` : undefined;
}

async function revokeAll(command: Command, client: AdminClient, live: readonly KnownKey[]): Promise<void> {
  const revocable = live.filter(({ kind }) => kind !== 'root');
  const names = revocable.map(({ kind, owner }) => `${kind} ${owner}`).join(', ');
  if (revocable.length > 0) await createConfirm(command)(`This revokes permanently: ${names}.`);
  for (const key of revocable) {
    const path = findPath(key);
    if (path === undefined) throw new CommandFailedError(`This program cannot revoke a ${key.kind}. Update it.`);
    await client.delete(path);
    say(`${key.kind} ${key.owner} is revoked.`);
  }
  if (revocable.length < live.length)
    throw new CommandFailedError(
      'ADMIN_API_KEY was found, which no call revokes: set another one where the service runs, restart it, and run this again.',
      'live_key_found',
    );
}
