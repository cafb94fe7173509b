import type { IncomingMessage } from 'node:http';

const MAX_LENGTH = 200;

/** @returns printable ASCII, cut to a length at which a person still recognises a device; undefined when nothing is left */
export function readUserAgent({ headers }: IncomingMessage): string | undefined {
  const text = headers['user-agent']
    ?.slice(0, MAX_LENGTH)
    .replace(/[^\x20-\x7e]/g, '')
    .trim();
  return text === '' ? undefined : text;
}
