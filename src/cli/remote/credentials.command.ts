// What the commands of apps, operators and nodes share: they list, show, update, rotate and revoke keys alike.
import { readFileSync } from 'node:fs';
import { Option, type Command } from 'commander';
import { isId } from '../../foundation/common/ids.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { DEFAULT_OVERLAP_HOURS, MAX_OVERLAP_HOURS, MAX_REVOKED_KEYS } from '../../foundation/config/limits.js';
import { joinPath } from '../http-client.js';
import { createNumberParser, parseDuration } from '../command-options.js';
import { isExpiring } from '../credential-state.js';
import { CommandFailedError, addYes, createConfirm } from '../terminal.js';
import { replaceControlCharacters, type Colour } from '../tables.js';
import { IDEMPOTENT_ADVICE, Names, type AdminClient, type ResourceType } from './admin-client.js';
import type { KeyResponse, RevokedKeysResponse } from '../../api/admin/key.dto.js';
import { addRemote, formatItem, toParameters, type List, type RemoteCommand } from './remote-command.js';

export interface CredentialType {
  readonly type: ResourceType;
  /** Capitalised, as at the start of a sentence. */
  readonly name: string;
  readonly idField: string;
  readonly path: string;
  readonly columns: readonly string[];
  /** The columns to leave out in a narrow terminal, in this order. */
  readonly drop: readonly string[];
  /** Present when a command may name the credential by something other than its id. */
  readonly named?: {
    readonly argument: string;
    readonly findId: (client: AdminClient, name: string) => Promise<string>;
  };
}

/** The caller adds further options: each becomes a filter of the service with the same name. */
export function addList(
  group: Command,
  { name, ...shown }: CredentialType,
  example: string,
  createWatch: () => List['watch'] = () => undefined,
): Command {
  return addRemote(group, 'list', `List ${name.toLowerCase()}s, including revoked ones.`, example)
    .list(() => ({ ...shown, colour: toMomentColour, watch: createWatch() }))
    .option('--live', 'only live ones: neither revoked nor expired')
    .option('--unused-for <duration>', 'only ones that were not used for this long: 24h, 30d', parseAge);
}

function parseAge(text: string): string {
  return new Date(Date.now() - parseDuration(text)).toISOString();
}

function toMomentColour(name: string, value: unknown): Colour | undefined {
  if (typeof value !== 'string') return undefined;
  if (name === 'revoked_at') return 'red';
  if (name !== 'expires_at') return undefined;
  if (new Date(value) <= new Date()) return 'red';
  return isExpiring({ expires_at: value }, new Date()) ? 'yellow' : undefined;
}

export function addShow(group: Command, { name, idField, path }: CredentialType): void {
  addRemote(group, `show <${idField}>`, `Show one ${name.toLowerCase()}.`, EXAMPLES.id).answer(
    async (client, id: string) => client.get<object>(joinPath(path, id)),
    (found) => formatItem(found),
  );
}

/** The caller adds the options: each becomes a field of the service with the same name. */
export function addUpdate(
  group: Command,
  { idField, path, named }: CredentialType,
  description: string,
  example: string,
): RemoteCommand {
  return addRemote(group, `update <${named?.argument ?? idField}>`, description, example).answer(
    async (client, name: string, options: Readonly<Record<string, unknown>>, command: Command) => {
      const change = toParameters(options);
      if (Object.keys(change).length === 0) {
        const flags = command.options.flatMap(({ long }) => (long === '--url' ? [] : (long ?? [])));
        const choice = new Intl.ListFormat('en-GB', { type: 'disjunction' }).format(flags);
        command.error(`error: nothing to change: give ${choice}`);
      }
      const id = (await named?.findId(client, name)) ?? name;
      return client.patch<object>(joinPath(path, id), change);
    },
    (changed) => formatItem(changed),
  );
}

interface Selection {
  readonly file?: string;
  readonly household?: string;
  readonly room?: string;
}

/** The caller adds further options of a {@link Selection}. */
export function addRevoke(group: Command, credential: CredentialType): Command {
  const { type, name, idField, path } = credential;
  const description = `Revoke the ${name.toLowerCase()}, or several, permanently.`;
  return addYes(addRemote(group, `revoke [${idField}]`, description, EXAMPLES.id))
    .option('--file <file>', 'revoke those whose ids are in this file, separated by blanks or lines')
    .answer(
      async (client, id: string | undefined, selection: Selection, command: Command) => {
        if (id === undefined) return revokeSeveral(client, credential, selection, command);
        await createConfirm(command)(async () => {
          const names = new Names(client);
          await names.learn([{ type, id }]);
          return `This revokes the ${name.toLowerCase()} ${replaceControlCharacters(names.get(id))} permanently.`;
        });
        await client.delete(joinPath(path, id));
        return { [idField]: id, revoked: true };
      },
      ({ revoked }, id) =>
        Array.isArray(revoked) ? `${name}s that are revoked now: ${revoked.length}.` : `${name} ${id} is revoked.`,
    );
}

/** Asks once, and waits once for the replicas in each call. */
async function revokeSeveral(
  client: AdminClient,
  { name, path, idField }: CredentialType,
  { file, household, room }: Selection,
  command: Command,
): Promise<{ revoked: string[] }> {
  if ((file === undefined) === (household === undefined && room === undefined))
    command.error('error: name one credential, or a selection by one of the options');
  const query = { household_id: household, search: room, live: 'true' };
  const isChosen = (each: Record<string, string>): boolean => room === undefined || each.room === room;
  const ids =
    file === undefined
      ? (await client.list<Record<string, string>>(path, query)).filter(isChosen).map((each) => String(each[idField]))
      : readIds(file);
  if (ids.length > 0) await createConfirm(command)(`This revokes ${ids.length} ${name.toLowerCase()}s permanently.`);
  return { revoked: await revokeKeys(client, path, ids) };
}

/** @returns the ids of those that were live */
export async function revokeKeys(client: AdminClient, path: string, ids: readonly string[]): Promise<string[]> {
  const revoked: string[] = [];
  for (let start = 0; start < ids.length; start += MAX_REVOKED_KEYS) {
    const some = { ids: ids.slice(start, start + MAX_REVOKED_KEYS) };
    const answer = await client.post<RevokedKeysResponse>(`${path}/revoke`, some, IDEMPOTENT_ADVICE);
    revoked.push(...answer.revoked);
  }
  return revoked;
}

/** @throws {CommandFailedError} when the file holds anything else */
function readIds(file: string): string[] {
  const ids = readFileSync(file, 'utf8').trim().split(/\s+/);
  if (ids.every(isId)) return ids;
  throw new CommandFailedError(`${file} holds something else than UUIDs. Nothing was changed.`, 'file_unusable');
}

/** @param condition under which the option is allowed */
export function createOverlapOption(condition = ''): Option {
  const what = `how long the old key is valid (default: ${DEFAULT_OVERLAP_HOURS})`;
  return new Option('--overlap-hours <hours>', condition + what).argParser(createNumberParser(0, MAX_OVERLAP_HOURS));
}

/** @returns the credential with its new key, which cannot be read again */
export async function rotateKey<View>(
  client: AdminClient,
  { path }: CredentialType,
  id: string,
  overlapHours: number | undefined,
): Promise<View> {
  const body = overlapHours === undefined ? undefined : { overlap_hours: overlapHours };
  const advice =
    'Run this again: a new key made by the lost call is not shown. The old one is valid until the overlap ends, if there is one.';
  return client.post<View>(joinPath(path, id, 'rotate'), body, advice);
}

/** The types whose new keys are printed once. */
export interface IssuedType extends CredentialType {
  /** The fields that are shown of a new key, besides its expiry. */
  readonly fields: readonly string[];
  readonly shownOnce: string;
}

type IssuedKey = Pick<KeyResponse, 'expires_at' | 'previous_key_expires_at'> & {
  readonly scopes?: readonly string[] | null;
};

type Rotation = Readonly<{ overlapHours?: number; finish?: true }>;

interface FinishedRotation {
  readonly finished: true;
}

/** The old key stays valid until `--finish` or the deadline, because replicas and pipelines share it. */
export function addRotate(group: Command, credential: IssuedType, example: string): void {
  const { idField, named, path } = credential;
  const description =
    'Make a new key and print it; it cannot be printed again. Both keys are valid until the overlap ends, or until --finish.';
  addRemote(group, `rotate <${named?.argument ?? idField}>`, description, example)
    .addOption(createOverlapOption())
    .addOption(
      new Option('--finish', 'make no key, and end the one before the last rotation now').conflicts('overlapHours'),
    )
    .answerKey(
      async (client, name: string, { overlapHours, finish }: Rotation): Promise<FinishedRotation | IssuedKey> => {
        const id = (await named?.findId(client, name)) ?? name;
        if (!finish) return rotateKey<IssuedKey>(client, credential, id, overlapHours);
        await client.post(joinPath(path, id, 'finish-rotation'), undefined, IDEMPOTENT_ADVICE);
        return { finished: true };
      },
      (answer) =>
        'finished' in answer
          ? 'The rotation is finished: only the newest key is valid.'
          : `${formatIssued(credential, answer)}\n${describeOldKey(answer.previous_key_expires_at)}`,
      (answer) => ('finished' in answer ? 'No key was made.' : adviseOnLost(credential, answer)),
    );
}

export function formatIssued({ fields, shownOnce }: IssuedType, issued: IssuedKey): string {
  const optional = (['scopes', 'expires_at'] as const).filter((name) => issued[name] != null);
  return `${formatItem(issued, new Set([...fields, ...optional]))}\n\n${shownOnce}`;
}

/** When the key could not be printed, the credential is live but its key is lost. */
export function adviseOnLost({ name, idField }: IssuedType, issued: object): string {
  const id = (issued as Readonly<Record<string, string>>)[idField];
  return `${name} ${id} is live: rotate it, or revoke it.`;
}

/** @param until the end of the overlap; null when the old key ended at once */
function describeOldKey(until: string | null): string {
  return until === null
    ? 'The old one is refused from now on.'
    : `The old one is valid until ${until}, or until \`rotate --finish\`.`;
}
