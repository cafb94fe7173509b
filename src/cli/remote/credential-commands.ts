import { Option, type Command } from 'commander';
import { EXAMPLES } from '../../common/examples.js';
import { DEFAULT_OVERLAP_HOURS, MAX_OVERLAP_HOURS } from '../../config/limits.js';
import { addYes, createConfirm } from '../prompts.js';
import { Names, type Kind, createClient, readOutput, describeRemote } from './admin-client.js';
import { createNumberParser, parseDuration } from '../command-options.js';
import { withAdvice } from '../http-client.js';
import { formatFields, replaceControlCharacters, type Cell, type Colour } from '../tables.js';
import { print } from '../output.js';
import { isExpiringSoon, isLive, isUnused, isUnusedSince } from '../attention.js';

/** A kind of credential: what the commands for nodes and for apps differ by. */
export interface CredentialKind {
  /** The group of commands. */
  readonly group: string;
  readonly kind: Kind;
  /** As at the start of a sentence. */
  readonly name: string;
  readonly idField: string;
  readonly path: string;
}

export function addShow(to: Command, { group, name, idField, path }: CredentialKind): void {
  describeRemote(
    to.command(`show <${idField}>`),
    `Show one ${name.toLowerCase()}.`,
    `${group} show ${EXAMPLES.id}`,
  ).action(async (id: string, _options, command: Command) => {
    const found = await createClient(command).get<Record<string, Cell>>(`${path}/${encodeURIComponent(id)}`);
    print(readOutput(command), found, formatFields);
  });
}

export function addRevoke(to: Command, { group, kind, name, idField, path }: CredentialKind): void {
  const description = `Revoke the ${name.toLowerCase()} permanently.`;
  describeRemote(addYes(to.command(`revoke <${idField}>`)), description, `${group} revoke ${EXAMPLES.id}`).action(
    async (id: string, _options, command: Command) => {
      const client = createClient(command);
      await createConfirm(command)(async () => {
        const names = new Names(client);
        await names.learn([{ kind, id }]);
        return `This revokes the ${name.toLowerCase()} ${replaceControlCharacters(names.get(id))} permanently.`;
      });
      await client.delete(`${path}/${encodeURIComponent(id)}`);
      print(readOutput(command), { [idField]: id, revoked: true }, () => `${name} ${id} is revoked.`);
    },
  );
}

/** @param condition under which the option is allowed */
export function createOverlapOption(condition = ''): Option {
  const what = `how long the old key is valid if the new one is not used (default: ${DEFAULT_OVERLAP_HOURS})`;
  return new Option('--overlap-hours <hours>', condition + what).argParser(createNumberParser(0, MAX_OVERLAP_HOURS));
}

/** Says for how long the old key is valid after a rotation. @param until the end of the overlap; null: it ended at once */
export function describeOldKey(until: string | null): string {
  return until === null
    ? 'The old one is refused from now on.'
    : `The old one is valid until the new one is first used, and until ${until} at the latest.`;
}

/** @returns the credential with its new key, which cannot be read again */
export async function rotate<View>(
  command: Command,
  { path }: Pick<CredentialKind, 'path'>,
  id: string,
  overlapHours: number | undefined,
): Promise<View> {
  const body = overlapHours === undefined ? undefined : { overlap_hours: overlapHours };
  return withAdvice(
    createClient(command).post<View>(`${path}/${encodeURIComponent(id)}/rotate`, body),
    'Run this again: a new key made by the lost call is not shown. The old one is valid until the overlap ends, if there is one.',
  );
}

/** The fields of nodes and app credentials by which they are filtered and counted. */
export interface CredentialView {
  readonly created_at: string;
  readonly last_used_at: string | null;
  readonly expires_at: string | null;
  readonly revoked_at: string | null;
}

export interface ListFilters {
  readonly live: boolean;
  /** In milliseconds. */
  readonly unusedFor?: number;
}

export function addFilters(command: Command): Command {
  return command
    .option('--live', 'only live ones: neither revoked nor expired', false)
    .option('--unused-for <duration>', 'only ones that were not used for this long: 24h, 30d', parseDuration);
}

export function applyFilters<View extends CredentialView>(
  items: readonly View[],
  { live, unusedFor }: ListFilters,
  now = new Date(),
): View[] {
  return items.filter(
    (item) =>
      (!live || isLive(item, now)) &&
      (unusedFor === undefined || isUnusedSince(item, new Date(now.getTime() - unusedFor))),
  );
}

/** Counts for an overview: the live ones, and which of them need attention. */
export function countCredentials(items: readonly CredentialView[], now = new Date()) {
  const live = items.filter((item) => isLive(item, now));
  return {
    live: live.length,
    ended: items.length - live.length,
    unused: live.filter((item) => isUnused(item, now)).length,
    expiring: live.filter((item) => isExpiringSoon(item, now)).length,
  };
}

export function toMomentColour(name: string, value: unknown): Colour | undefined {
  if (typeof value !== 'string') return undefined;
  if (name === 'revoked_at') return 'red';
  if (name !== 'expires_at') return undefined;
  if (new Date(value) <= new Date()) return 'red';
  return isExpiringSoon({ expires_at: value }, new Date()) ? 'yellow' : undefined;
}
