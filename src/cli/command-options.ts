// How commands are added, and how their options are parsed.
import { userInfo } from 'node:os';
import { Command, InvalidArgumentError } from 'commander';
import { isId } from '../foundation/common/ids.js';
import { isRestriction, SERVICE_NAME_FORMAT } from '../foundation/common/names.js';
import { parseBaseUrl } from './http-client.js';

export const NEEDS_ADMIN_KEY =
  'Needs ADMIN_API_KEY or ADMIN_API_KEY_FILE (it may be the key of an operator), in the environment or in .env.';
export const NEEDS_DATABASE =
  'Connects to the database: needs DATABASE_URL or DATABASE_URL_FILE, in the environment or in .env.';
export const DATABASE_EXAMPLE = 'DATABASE_URL=postgresql://…';
export const EXIT_CODES =
  'Exit codes: 0 done, 1 failed or something is broken, 2 wrong usage, 3 a plan would change something, 141 the reader of the output has ended.';

interface Help {
  readonly needs: string;
  /** The rest of the example's line, after the name of the command. */
  readonly example?: string | undefined;
  /** Environment variables that are printed in front of the example. */
  readonly variables?: string;
}

/** Adds a command, whose help ends with what it needs and an example. */
export function addCommand<Added extends Command = Command>(
  parent: Command,
  signature: string,
  description: string,
  { needs, example = '', variables = '' }: Help,
  command = new Command() as Added,
): Added {
  const [name = '', ...parameters] = signature.split(' ');
  command.name(name).description(description).copyInheritedSettings(parent);
  for (const parameter of parameters) command.argument(parameter);
  parent.addCommand(command);
  let path = name;
  for (let above: Command | null = parent; above; above = above.parent) path = `${above.name()} ${path}`;
  const line = `${variables} ${path} ${example}`.trim();
  command.showHelpAfterError(`(see ${path} --help)`);
  return command.addHelpText('after', `\n${needs}\n\nExample:\n  ${line}`);
}

// Moments and durations as operators write them: 30m, 24h, 7d, or ISO 8601.

const UNIT_MS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** @returns milliseconds */
export function parseDuration(text: string): number {
  const duration = readDuration(text);
  if (duration === undefined) throw new InvalidArgumentError('It must be a duration: 30m, 24h, 7d.');
  return duration;
}

/** @returns a moment in the past as ISO 8601 */
export function parsePast(text: string): string {
  const duration = readDuration(text);
  return toIso(
    duration === undefined ? Date.parse(text) : Date.now() - duration,
    'It must be a date and time (ISO 8601), or how long ago: 30m, 24h, 7d.',
  );
}

const NEVER = 'never';

/** @returns a moment in the future as ISO 8601, or "never" */
export function parseExpiry(text: string): string {
  if (text === NEVER) return NEVER;
  const duration = readDuration(text);
  return toIso(
    duration === undefined ? Date.parse(text) : Date.now() + duration,
    'It must be a date and time (ISO 8601), in how long (24h, 90d), or "never".',
  );
}

function readDuration(text: string): number | undefined {
  const [, amount, unit = ''] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  return amount === undefined ? undefined : Number(amount) * (UNIT_MS[unit] ?? NaN);
}

function toIso(at: number, otherwise: string): string {
  if (Number.isNaN(at)) throw new InvalidArgumentError(otherwise);
  return new Date(at).toISOString();
}

export function parseUuid(text: string): string {
  if (!isId(text)) throw new InvalidArgumentError('It must be a UUID.');
  return text;
}

const ALL = 'all';
type Restriction = string[] | typeof ALL;

/**
 * @param what the key is restricted to, in the plural
 * @returns a parser of a list of names, or of "all"
 */
export function createRestrictionParser(what: string, isName: (each: unknown) => each is string) {
  return (text: string): Restriction => {
    const names = text.split(',').map((each) => each.trim());
    if (text === ALL || isRestriction(names, isName)) return text === ALL ? text : names;
    throw new InvalidArgumentError(`It must be ${what}, separated by commas, each once, or "all".`);
  };
}

export const TARGETS = 'the only services at which the node is accepted, separated by commas, or "all"';
export const parseTargets = createRestrictionParser('names of services', SERVICE_NAME_FORMAT.isName);

export function parseServiceUrl(text: string): string {
  try {
    return parseBaseUrl(text);
  } catch {
    throw new InvalidArgumentError('It must be an http(s) URL without user, query or fragment.');
  }
}

export function createNumberParser(min: number, max: number): (text: string) => number {
  return (text) => {
    if (/^\d{1,9}$/.test(text) && Number(text) >= min && Number(text) <= max) return Number(text);
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
  };
}

/** @returns who runs the command, for the audit log: the numeric id when the user has no entry, as in many containers */
export function readSystemUser(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.());
  }
}
