import type { Actors, CredentialKind } from './actors.js';
import { bomb, compress, type Encoding, type GeneratedBody } from './bodies.js';
import { spoil, type GeneratedCredentials } from './credentials.js';
import type { Header, Wire } from './send.js';

/** How a body is sent. */
export interface Media {
  readonly type: string | undefined;
  readonly chunked: boolean;
  readonly compress?: Encoding | undefined;
  /** The Content-Encoding that the header claims, when it differs from the real one. */
  readonly encoding?: string | undefined;
}

/** A request as it is generated: plain data, in which symbols such as `{{app_key}}` name live credentials. */
export interface GeneratedRequest {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly credentials: GeneratedCredentials;
  readonly body: GeneratedBody | undefined;
  readonly media: Media;
  readonly extra: readonly Header[];
}

export interface SentRequest {
  readonly wire: Wire;
  /** The body before compression, when it is text. */
  readonly text: string | undefined;
  /** The kinds of the credentials that it names. */
  readonly kinds: ReadonlySet<CredentialKind>;
}

const MAX_SHOWN_BYTES = 20_000;

/** Replaces the symbols of a generated request by live values. */
export async function toWire(generated: GeneratedRequest, actors: Actors): Promise<SentRequest> {
  const { method, path, query, credentials, body, media, extra } = generated;
  const target = query ? `${path}?${query}` : path;
  const text = body && 'text' in body ? body.text : undefined;
  const { fill, kinds } = await actors.valuesFor(target, text ?? '', ...credentials.headers.flat(), ...extra.flat());
  const toLive = ([name, value]: Header): Header => [name, fill(value)];
  const live = credentials.headers.map(toLive);
  const headers = [...(credentials.spoil ? spoil(live, credentials.spoil) : live), ...extra.map(toLive)];
  const plain = toBytes(body, fill);
  const compressed = body && 'megabytes' in body ? undefined : media.compress;
  const encoding = media.encoding ?? (body && 'encoding' in body ? body.encoding : compressed);
  if (plain && media.type !== undefined) headers.push(['Content-Type', media.type]);
  if (plain && encoding !== undefined) headers.push(['Content-Encoding', encoding]);
  return {
    wire: {
      method,
      target: fill(target),
      headers,
      body: plain && compressed ? compress(compressed, plain) : plain,
      chunked: media.chunked,
    },
    text: text === undefined ? undefined : plain?.toString(),
    kinds,
  };
}

/** @returns a shell command that sends the request */
export function toCurl(port: number, { method, target, headers, body, chunked }: Wire): string {
  const parts = ['curl', '-i', '--path-as-is', '-X', method];
  for (const [name, value] of headers) parts.push('-H', quote(value === '' ? `${name};` : `${name}: ${value}`));
  if (chunked && body) parts.push('-H', quote('Transfer-Encoding: chunked'));
  parts.push(quote(`http://127.0.0.1:${port}${target}`));
  const command = parts.join(' ');
  if (!body) return command;
  if (body.length > MAX_SHOWN_BYTES)
    return `${command} --data-binary @- # a body of ${body.length} bytes: run the seed`;
  const isReadable = /^[\x20-\x7e]*$/.test(body.toString('latin1'));
  if (isReadable) return `${command} --data-binary ${quote(body.toString())}`;
  return `base64 -d <<<${body.toString('base64')} | ${command} --data-binary @-`;
}

function toBytes(body: GeneratedBody | undefined, fill: (text: string) => string): Buffer | undefined {
  if (body === undefined) return undefined;
  if ('hex' in body) return Buffer.from(body.hex, 'hex');
  if ('megabytes' in body) return bomb(body.encoding, body.megabytes);
  return Buffer.from(fill(body.text));
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
