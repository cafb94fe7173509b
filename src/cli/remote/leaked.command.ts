// `platform-auth leaked`: finds keys in files, or in the history of a repository, and tells whose they are. A key leaves this
// process as a digest only, and is never printed. Secrets of the service without a form of their own are found by the names of their variables.
import { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import type { Command } from 'commander';
import * as z from 'zod';
import { secret } from '../../foundation/config/variable-kinds.js';
import { computeDigest, findKeys } from '../../foundation/crypto/secret.js';
import { NEEDS_ADMIN_KEY } from '../command-options.js';
import { describeFileReason } from '../failures.js';
import { formatTable } from '../tables.js';
import { addYes, CommandFailedError, createConfirm, print, say } from '../terminal.js';
import type { AdminClient } from './admin-client.js';
import { addRemote, createClient } from './remote-command.js';
import type { IdentifiedKeysResponse } from '../../api/admin/identify.admin.controller.js';

type KnownKey = IdentifiedKeysResponse['items'][number];

const identified = z.object({ items: z.array(z.object({ digest: z.string() })), searched: z.array(z.string()) });
/** The service takes no more in one request. */
const MAX_DIGESTS = 32;
const COLUMNS = ['place', 'kind', 'verdict', 'owner', 'id', 'last_used_at', 'last_used_for'] as const;
const DROP = ['last_used_for', 'id', 'last_used_at'] as const;
/** The name of the kind in a key, and as the service calls it. */
const KINDS = { node: 'node', app: 'app', admin: 'operator', rt: 'session' } as const;
const SECRET_OF_SERVICE =
  /\b(SECRET_KEY(?:_PREVIOUS)?|ADMIN_API_KEY|AUDIT_SEAL_KEY|DATABASE_URL|MAIL_URL)["']?\s*[=:]\s*["']?([^\s"']+)/g;
const PASSWORD_IN_URL = /^[a-z]+:\/\/[^/?#@:]*:(?!password@)[^@$<{]+@/;
const PATHS: Readonly<Record<string, (key: KnownKey) => string>> = {
  node: ({ id }) => `/nodes/${id}`,
  app: ({ id }) => `/app-credentials/${id}`,
  operator: ({ id }) => `/operators/${id}`,
  session: ({ owner }) => `/users/${owner}/sessions`,
};

interface Find {
  /** `file:line`, or in a Git history the commit too. */
  readonly place: string;
  /** Of a secret of the service: the name of its variable. */
  readonly kind: string;
  /** Undefined for a secret of the service, which no server looks up. */
  readonly digest?: string;
}

export function addLeakedCommand(root: Command): void {
  const description =
    'Find our keys in files or standard input (`git log -p --all | platform-auth leaked`), and tell whether they are live.';
  const command = addRemote(root, 'leaked [files...]', description, 'backup.sql .env', NEEDS_ADMIN_KEY);
  addYes(command)
    .option('--revoke', 'revoke the live ones after one question; of a session, all of its user', false)
    .addHelpText(
      'after',
      '\nIt also finds SECRET_KEY, ADMIN_API_KEY, AUDIT_SEAL_KEY, and a password in DATABASE_URL or MAIL_URL, by these names. ' +
        'Exit code 1 when one of them or a live key was found. No secret is printed, and of a key only the digest is sent.',
    )
    .action(async (files: string[], { revoke }: { revoke: boolean }) => {
      const client = createClient(command);
      const finds = await findInAll(files);
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

async function findInAll(files: readonly string[]): Promise<Find[]> {
  const finds: Find[] = [];
  if (files.length === 0) for await (const find of findInStream('stdin', process.stdin)) finds.push(find);
  for (const file of files) {
    try {
      for await (const find of findInStream(file, createReadStream(file))) finds.push(find);
    } catch (error) {
      throw new CommandFailedError(
        `${file} cannot be read: ${describeFileReason(error) ?? (error as Error).name}.`,
        'file_unreadable',
      );
    }
  }
  return finds;
}

/** Reads any bytes, line by line. In the output of `git log -p`, a place is the commit and the file that a line is of. */
async function* findInStream(name: string, stream: Readable): AsyncGenerator<Find> {
  let number = 0;
  let [commit, path] = ['', ''];
  for await (const line of readLines(stream)) {
    number += 1;
    commit = /^commit ([0-9a-f]{40,64})\b/.exec(line)?.[1] ?? commit;
    path = /^(?:\+\+\+|---) [ab]\/(.+)$/.exec(line)?.[1] ?? path;
    const inCommit =
      commit === ''
        ? ''
        : ` (${[commit.slice(0, 12), Buffer.from(path, 'latin1').toString()].filter(Boolean).join(' ')})`;
    const place = `${name}:${number}${inCommit}`;
    for (const { kind, key } of findKeys(line))
      yield { place, kind: KINDS[kind], digest: computeDigest(key).toString('hex') };
    for (const kind of findSecretsOfService(line)) yield { place, kind };
  }
}

/** @returns the names of the variables whose values are secrets, not references or placeholders. An operator's key has a form. */
function findSecretsOfService(line: string): string[] {
  return Array.from(line.matchAll(SECRET_OF_SERVICE)).flatMap(([, name = '', value = '']) => {
    const isKey = !value.startsWith('$') && secret.safeParse(value).success && findKeys(value).length === 0;
    return (name.endsWith('_URL') ? PASSWORD_IN_URL.test(value) : isKey) ? [name] : [];
  });
}

/** A stream of its own, because readline does not pass on why a file cannot be read. */
async function* readLines(stream: Readable): AsyncGenerator<string> {
  let rest = '';
  for await (const chunk of stream.setEncoding('latin1') as AsyncIterable<string>) {
    const [first = '', ...more] = chunk.split('\n');
    rest += first;
    for (const next of more) {
      yield rest;
      rest = next;
    }
  }
  yield rest;
}

/** @returns the credentials by digest, and the kinds that the operator may be told of */
export async function identifyKeys(client: AdminClient, found: readonly string[]) {
  const digests = [...new Set(found)];
  const items = new Map<string, KnownKey>();
  let searched: readonly string[] = [];
  for (let start = 0; start < digests.length; start += MAX_DIGESTS) {
    const body = { digests: digests.slice(start, start + MAX_DIGESTS) };
    const answer = await client.post<IdentifiedKeysResponse>('/keys/identify', body);
    client.requireShape(identified, answer);
    for (const item of answer.items) items.set(item.digest, item);
    searched = answer.searched;
  }
  return { items, searched };
}

function toRow({ place, kind, digest }: Find, { items, searched }: Awaited<ReturnType<typeof identifyKeys>>) {
  const key = items.get(digest ?? '');
  const unlisted = searched.includes(kind) ? 'unknown' : 'not looked up: scope';
  const verdict =
    digest === undefined ? 'not looked up: secret of the service' : key ? (key.live ? 'LIVE' : 'ended') : unlisted;
  const { owner = '', id = '', last_used_at = null, last_used_for = null } = key ?? {};
  return { place, kind, verdict, owner, id, last_used_at, last_used_for };
}

async function revokeAll(command: Command, client: AdminClient, live: readonly KnownKey[]): Promise<void> {
  const revocable = live.filter(({ kind }) => kind !== 'root');
  const names = revocable.map(({ kind, owner }) => `${kind} ${owner}`).join(', ');
  if (revocable.length > 0) await createConfirm(command)(`This revokes permanently: ${names}.`);
  for (const key of revocable) {
    const path = PATHS[key.kind]?.(key);
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
