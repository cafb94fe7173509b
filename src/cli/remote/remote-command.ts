import { InvalidArgumentError, type Command } from 'commander';
import { readVariables } from '../../config/environment.js';
import { isId } from '../../common/ids.js';
import { AdminClient } from './admin-client.js';
import { baseUrl } from '../service-call.js';
import type { Output } from '../terminal.js';

type Options = Output & { readonly url?: string };

/** Describes a command that calls the service, with what all of these share. */
export function remote(command: Command, description: string, example: string): Command {
  return command
    .description(description)
    .option('--url <url>', 'of the service (default: AUTH_URL, or http://127.0.0.1:7701)', httpUrl)
    .addHelpText(
      'after',
      `\nNeeds ADMIN_API_KEY, in the environment or in .env.\n\nExample:\n  platform-auth ${example}`,
    );
}

/** The service that a command was pointed at. */
export function clientOf(command: Command): AdminClient {
  return AdminClient.from(readVariables(), command.optsWithGlobals<Options>().url);
}

export function outputOf(command: Command): Output {
  return command.optsWithGlobals<Options>();
}

/** A segment of a path, whatever was typed. */
export function segment(text: string): string {
  return encodeURIComponent(text);
}

export function uuid(text: string): string {
  if (!isId(text)) throw new InvalidArgumentError('It must be a UUID.');
  return text;
}

function httpUrl(text: string): string {
  try {
    return baseUrl(text);
  } catch {
    throw new InvalidArgumentError('It must be an http(s) URL without user, query or fragment.');
  }
}

export function numberFrom(least: number, most: number): (text: string) => number {
  return (text) => {
    if (/^\d{1,9}$/.test(text) && Number(text) >= least && Number(text) <= most) return Number(text);
    throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`);
  };
}
