import { InvalidArgumentError, type Command } from 'commander';
import { readVariables, type Variables, readSecretFiles } from '../../config/environment.js';
import { isId } from '../../common/ids.js';
import { formatNeeds, NEEDS_ADMIN_KEY } from '../needs.js';
import { AdminClient } from './admin-client.js';
import { parseBaseUrl } from '../service-call.js';
import type { Output } from '../terminal.js';

type Options = Output & { readonly url?: string };

/** Adds to a command what all commands that call the service share: --url and the help text. */
export function describeRemote(
  command: Command,
  description: string,
  example: string,
  needs = NEEDS_ADMIN_KEY,
): Command {
  return command
    .description(description)
    .option('--url <url>', 'address of the service (default: AUTH_URL, or http://127.0.0.1:7701)', parseUrl)
    .addHelpText('after', formatNeeds(needs, `platform-auth ${example}`));
}

/** @returns a client for the service that --url or AUTH_URL names */
export function createClient(command: Command): AdminClient {
  return AdminClient.from(readRemoteVariables(), readUrl(command));
}

/** @returns the variables of this process, with the admin key */
export function readRemoteVariables(): Variables {
  return readSecretFiles(readVariables(), ['ADMIN_API_KEY']);
}

/** @returns the value of --url */
export function readUrl(command: Command): string | undefined {
  return command.optsWithGlobals<Options>().url;
}

export function readOutput(command: Command): Output {
  return command.optsWithGlobals<Options>();
}

/** Prevents path injection: an id comes from the command line. */
export function encodeSegment(text: string): string {
  return encodeURIComponent(text);
}

export function parseUuid(text: string): string {
  if (!isId(text)) throw new InvalidArgumentError('It must be a UUID.');
  return text;
}

function parseUrl(text: string): string {
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
