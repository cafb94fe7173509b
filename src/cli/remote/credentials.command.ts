// `platform-auth apps` and `platform-auth operators`, and what the commands for nodes share with them.
import { readFileSync } from 'node:fs';
import { InvalidArgumentError, Option, type Command } from 'commander';
import { isId } from '../../foundation/common/ids.js';
import { EXAMPLES, APP_SCOPE, isScopeList, SCOPES, type Scope } from '../../foundation/common/names.js';
import { DEFAULT_OVERLAP_HOURS, MAX_OVERLAP_HOURS, MAX_REVOKED_KEYS } from '../../foundation/config/limits.js';
import {
  addCommand,
  createNumberParser,
  createRestrictionParser,
  NEEDS_ADMIN_KEY,
  parseDuration,
  parseExpiry,
} from '../command-options.js';
import { isExpiring } from '../credential-state.js';
import { CommandFailedError, addYes, createConfirm } from '../terminal.js';
import { replaceControlCharacters, type Colour } from '../tables.js';
import { IDEMPOTENT_ADVICE, Names, type AdminClient, type ResourceType } from './admin-client.js';
import type { IssuedAppCredentialResponse } from '../../api/admin/app-credentials.admin.controller.js';
import type { RevokedKeysResponse } from '../../api/admin/key.dto.js';
import type { IssuedOperatorResponse, OperatorResponse } from '../../api/admin/operators.admin.controller.js';
import { addRemote, formatItem, toParameters, type List, type RemoteCommand } from './remote-command.js';

/** What the commands of apps, operators and nodes differ by. */
export interface CredentialType {
  readonly type: ResourceType;
  /** As at the start of a sentence. */
  readonly name: string;
  readonly idField: string;
  readonly path: string;
  readonly columns: readonly string[];
  /** The columns that a narrow terminal can do without, the first ones first. */
  readonly drop: readonly string[];
  /** How a command names one, if not by its id. */
  readonly named?: {
    readonly argument: string;
    readonly findId: (client: AdminClient, name: string) => Promise<string>;
  };
}

/** The caller adds further options, which select as the service does. */
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
    async (client, id: string) => client.get<object>(`${path}/${encodeURIComponent(id)}`),
    (found) => formatItem(found),
  );
}

/** The caller adds the options, each for what the service calls so. */
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
      return client.patch<object>(`${path}/${encodeURIComponent(id)}`, change);
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
        await client.delete(`${path}/${encodeURIComponent(id)}`);
        return { [idField]: id, revoked: true };
      },
      ({ revoked }, id) =>
        Array.isArray(revoked) ? `${name}s that are revoked now: ${revoked.length}.` : `${name} ${id} is revoked.`,
    );
}

/** One confirmation, and one wait for the replicas in each call. */
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
  const what = `how long the old key is valid if the new one is not used (default: ${DEFAULT_OVERLAP_HOURS})`;
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
  return client.post<View>(`${path}/${encodeURIComponent(id)}/rotate`, body, advice);
}

/** Apps and operators: their commands print a new key once. */
interface IssuedType extends CredentialType {
  /** What is shown of an issued key, besides its expiry. */
  readonly fields: readonly string[];
  readonly shownOnce: string;
}

type IssuedApp = IssuedAppCredentialResponse;
type IssuedOperator = IssuedOperatorResponse;

function addRotate(group: Command, credential: IssuedType, example: string): void {
  const { idField, named } = credential;
  const description = 'Make a new key and print it; it cannot be printed again.';
  addRemote(group, `rotate <${named?.argument ?? idField}>`, description, example)
    .addOption(createOverlapOption())
    .answerKey(
      async (client, name: string, { overlapHours }: { overlapHours?: number }) => {
        const id = (await named?.findId(client, name)) ?? name;
        return rotateKey<IssuedApp | IssuedOperator>(client, credential, id, overlapHours);
      },
      (rotated) => `${formatIssued(credential, rotated)}\n${describeOldKey(rotated.previous_key_expires_at)}`,
      (rotated) => adviseOnLost(credential, rotated),
    );
}

function formatIssued({ fields, shownOnce }: IssuedType, issued: IssuedApp | IssuedOperator): string {
  const optional = (['scopes', 'expires_at'] as const).filter((name) => issued[name] !== null);
  return `${formatItem(issued, new Set([...fields, ...optional]))}\n\n${shownOnce}`;
}

/** The credential is live, although its key was never printed. */
function adviseOnLost({ name }: IssuedType, issued: IssuedApp | IssuedOperator): string {
  const id = 'app_id' in issued ? issued.app_id : issued.operator_id;
  return `${name} ${id} is live: rotate it, or revoke it.`;
}

/** Says for how long the old key is valid after a rotation. @param until the end of the overlap; null: it ended at once */
function describeOldKey(until: string | null): string {
  return until === null
    ? 'The old one is refused from now on.'
    : `The old one is valid until the new one is first used, and until ${until} at the latest.`;
}

const APPS: IssuedType = {
  type: 'app',
  name: 'App credential',
  idField: 'app_id',
  path: '/app-credentials',
  columns: ['app_id', 'caller', 'target', 'scopes', 'last_used_at', 'rotated_at', 'expires_at', 'revoked_at'],
  drop: ['rotated_at', 'expires_at', 'revoked_at', 'last_used_at', 'scopes'],
  fields: ['app_id', 'app_key', 'caller', 'target'],
  shownOnce: 'The key is shown only this once.',
};

const parseAppScopes = createRestrictionParser('scopes, such as documents:read', APP_SCOPE.isName);
const SCOPES_OF_APP = 'the only scopes that it has at the target, separated by commas, or "all"';

/** `platform-auth apps …`: the credentials that services present to each other. */
export function addAppsCommands(root: Command): void {
  const summary = 'Manage the credentials of services. `init` issues those of a whole platform.';
  const apps = addCommand(root, 'apps', summary, { needs: NEEDS_ADMIN_KEY, example: 'list' });
  addList(apps, APPS, '--target recipes --live --unused-for 30d')
    .option('--caller <service>', 'only credentials that this service presents')
    .option('--target <service>', 'only credentials that are valid at this service');
  const description = 'Issue a credential for a pair of services, and print its key; it cannot be printed again.';
  addRemote(apps, 'issue', description, `--caller recipes --target ocr --scopes ${EXAMPLES.appScope}`)
    .requiredOption('--caller <service>', 'the service that presents the credential')
    .requiredOption('--target <service>', 'the service that it is valid at')
    .option('--scopes <list>', `${SCOPES_OF_APP} (default: all)`, parseAppScopes)
    .option('--expires <moment>', 'ISO 8601, or in how long: 24h, 90d (default: never)', parseExpiry)
    .answerKey(
      async (client, options: Readonly<Record<string, string>>) =>
        client.post<IssuedApp>(
          APPS.path,
          toParameters(options),
          `If \`platform-auth apps list --caller ${options.caller} --target ${options.target} --live\` shows it, its key is lost: rotate it. Otherwise run this again.`,
        ),
      (issued) => formatIssued(APPS, issued),
      (issued) => adviseOnLost(APPS, issued),
    );
  addShow(apps, APPS);
  const change =
    'Change the scopes of a credential. Its key stays, and the call answers when the change holds everywhere.';
  addUpdate(apps, APPS, change, `${EXAMPLES.id} --scopes ${EXAMPLES.appScope}`).requiredOption(
    '--scopes <list>',
    SCOPES_OF_APP,
    parseAppScopes,
  );
  addRotate(apps, APPS, EXAMPLES.id);
  addRevoke(apps, APPS);
}

const OPERATORS: IssuedType = {
  type: 'operator',
  name: 'Operator',
  idField: 'operator_id',
  path: '/operators',
  columns: ['name', 'scopes', 'operator_id', 'last_used_at', 'rotated_at', 'expires_at', 'revoked_at'],
  drop: ['rotated_at', 'operator_id', 'expires_at', 'last_used_at', 'revoked_at'],
  fields: ['operator_id', 'name', 'api_key', 'scopes'],
  shownOnce: 'The key is shown only this once. The operator sets it as ADMIN_API_KEY, or sends it as X-Admin-Key.',
  named: { argument: 'operator', findId: async (client, name) => (await findOperator(client, name)).operator_id },
};

/** `platform-auth operators …`: people and programs with an admin key of their own. */
export function addOperatorsCommands(root: Command): void {
  const summary = 'Manage operators: admin keys with a name and scopes. An <operator> is an id or a name.';
  const operators = addCommand(root, 'operators', summary, { needs: NEEDS_ADMIN_KEY, example: 'list' });
  addList(operators, OPERATORS, '--live --unused-for 30d');
  const description = 'Issue an admin key for an operator, and print it; it cannot be printed again.';
  addRemote(operators, 'issue <name>', description, `${EXAMPLES.operator} --scopes read,nodes --expires 90d`)
    .requiredOption('--scopes <list>', `what it may do, separated by commas: ${SCOPES.join(', ')}`, parseScopes)
    .option('--expires <moment>', 'ISO 8601, or in how long: 24h, 90d (default: never)', parseExpiry)
    .answerKey(
      async (client, name: string, options: Readonly<Record<string, unknown>>) =>
        client.post<IssuedOperator>(
          OPERATORS.path,
          { name, ...toParameters(options) },
          'If `platform-auth operators list --live` shows it, its key is lost: rotate it. Otherwise run this again.',
        ),
      (issued) => formatIssued(OPERATORS, issued),
      (issued) => adviseOnLost(OPERATORS, issued),
    );
  const change = 'Change the scopes or the expiry of an operator; its key stays.';
  addUpdate(operators, OPERATORS, change, `${EXAMPLES.operator} --scopes read,users --expires never`)
    .option('--scopes <list>', 'all that it may do from now on, separated by commas', parseScopes)
    .option('--expires <moment>', 'ISO 8601, in how long (24h, 90d), or "never"', parseExpiry);
  addRotate(operators, OPERATORS, EXAMPLES.operator);
  const revocation = 'Revoke an operator permanently: the next call with its key is refused.';
  addYes(addRemote(operators, 'revoke <operator>', revocation, EXAMPLES.operator)).answer(
    async (client, operator: string, _options: unknown, command: Command) => {
      const { operator_id, name } = await findOperator(client, operator);
      await createConfirm(command)(`This revokes the operator ${replaceControlCharacters(name)} permanently.`);
      await client.delete(`${OPERATORS.path}/${encodeURIComponent(operator_id)}`);
      return { operator_id, name, revoked: true };
    },
    ({ name }) => `Operator ${name} is revoked.`,
  );
}

/** @throws {CommandFailedError} when no operator has the id, and when none that is not revoked has the name */
async function findOperator(client: AdminClient, operator: string): Promise<OperatorResponse> {
  const { path } = OPERATORS;
  if (isId(operator)) return client.get(`${path}/${encodeURIComponent(operator)}`);
  const named = await client.list<OperatorResponse>(path, { name: operator });
  const found = named.find(({ revoked_at }) => revoked_at === null);
  if (found) return found;
  throw new CommandFailedError(
    `No operator that is not revoked has the name ${operator}. \`platform-auth operators list\` shows every operator.`,
    'not_found',
  );
}

function parseScopes(text: string): Scope[] {
  const scopes = text.split(',').map((each) => each.trim());
  if (!isScopeList(scopes))
    throw new InvalidArgumentError(`It must be one or more of these, each once: ${SCOPES.join(',')}.`);
  return scopes;
}
