// HTTP as a hostile client sends it, and servers that say what they received.
import { createHash, type Hash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { z } from 'zod';
import { isDeepStrictEqual } from 'node:util';
import type { Cleanup } from '../../tools/cleanup.js';

const RAW_TIMEOUT_MS = 10_000;

const received = z.object({
  method: z.string(),
  url: z.string(),
  /** As they arrived: repeated ones too. */
  headers: z.array(z.tuple([z.string(), z.string()])),
  length: z.int(),
  sha256: z.string(),
  /** Fields after a chunked body. */
  trailers: z.array(z.tuple([z.string(), z.string()])),
});
export type Received = z.output<typeof received>;

export interface Answer {
  readonly status: number;
  /** Each value as it arrived: a repeated header is not joined. */
  readonly headers: Readonly<Record<string, readonly string[] | undefined>>;
  readonly body: string;
}

interface Question {
  readonly method?: string;
  readonly path: string;
  /** Pairs, so that a name can be repeated, in the letters that are sent. */
  readonly headers?: readonly (readonly [string, string])[];
  readonly body?: Buffer;
}

async function readBody(stream: IncomingMessage): Promise<{ length: number; hash: Hash }> {
  const hash = createHash('sha256');
  let length = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    hash.update(chunk);
    length += chunk.length;
  }
  return { length, hash };
}

/** @param raw names and values in turn, as Node.js has them */
function toPairs(raw: readonly string[]): [string, string][] {
  return Array.from({ length: raw.length / 2 }, (_, index) => [
    (raw[2 * index] ?? '').toLowerCase(),
    raw[2 * index + 1] ?? '',
  ]);
}

async function describe(request: IncomingMessage): Promise<Received> {
  const { method = '', url = '', rawHeaders } = request;
  const { length, hash } = await readBody(request);
  const [headers, trailers] = [toPairs(rawHeaders), toPairs(request.rawTrailers)];
  return { method, url, headers, length, sha256: hash.digest('hex'), trailers };
}

/** A server that answers what it received, and switches to each protocol that it is asked for. */
export class Echo {
  readonly seen: Received[] = [];

  private constructor(readonly port: number) {}

  /** @param headers of each answer */
  static async start(cleanup: Cleanup, headers: OutgoingHttpHeaders = {}): Promise<Echo> {
    const server = createServer();
    await once(server.listen(0, '127.0.0.1'), 'listening');
    cleanup.defer(() => {
      server.closeAllConnections();
      server.close();
    });
    const echo = new Echo((server.address() as AddressInfo).port);
    server.on('upgrade', ({ headers: { upgrade = '' } }, socket) => {
      socket.end(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${upgrade}\r\n\r\n`);
    });
    server.on('request', (request, response) => {
      void describe(request).then((seen) => {
        echo.seen.push(seen);
        const status = Number(/status=(\d+)/.exec(seen.url)?.[1] ?? 200);
        response.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(seen));
      });
    });
    return echo;
  }
}

export function parseReceived({ body }: Answer): Received {
  return received.parse(JSON.parse(body));
}

/** Sends a request on a connection of its own. */
export async function send(port: number, { method = 'GET', path, headers = [], body }: Question): Promise<Answer> {
  const length: [string, string][] = body ? [['Content-Length', String(body.length)]] : [];
  const pairs = [['Host', 'recipes.example.org'], ['Connection', 'close'], ...headers, ...length];
  const request = httpRequest({ port, host: '127.0.0.1', method, path, headers: pairs.flat(), agent: false });
  request.end(body);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk);
  return {
    status: response.statusCode ?? 0,
    headers: response.headersDistinct,
    body: Buffer.concat(chunks).toString(),
  };
}

/** Sends lines that an HTTP client would refuse to send. @returns the status; undefined when the connection was closed */
export function sendRaw(port: number, lines: readonly string[]): Promise<number | undefined> {
  return new Promise((resolve) => {
    let text = '';
    const finish = (): void => {
      socket.destroy();
      const status = /^HTTP\/1\.[01] (\d{3})/.exec(text)?.[1];
      resolve(status === undefined ? undefined : Number(status));
    };
    const socket = connect(port, '127.0.0.1')
      .on('data', (chunk) => (text += chunk.toString('latin1')))
      .on('error', finish)
      .on('close', finish)
      .setTimeout(RAW_TIMEOUT_MS, finish);
    socket.write(Buffer.from([...lines, 'Connection: close', '', ''].join('\r\n'), 'latin1'));
  });
}

export function expectEqual(found: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(found, expected))
    throw new Error(`found ${JSON.stringify(found)} instead of ${JSON.stringify(expected)}`);
}

/** What the upstream takes for the identity: frameworks read underscores and dots as hyphens. */
export function identityOf({ headers }: Received): Record<string, string> {
  const found = headers.filter(([name]) => /^x[-_.]auth[-_.]/.test(name));
  const identity = Object.fromEntries(found.sort(([a], [b]) => a.localeCompare(b)));
  if (Object.keys(identity).length !== found.length) throw new Error(`repeated: ${JSON.stringify(found)}`);
  return identity;
}

export function expectIdentity(answer: Answer, expected: Readonly<Record<string, string>>): Received {
  if (answer.status !== 200) throw new Error(`${answer.status} ${answer.body}`);
  const received = parseReceived(answer);
  expectEqual(identityOf(received), expected);
  return received;
}

export function expectRefusal({ status, headers, body }: Answer, code: string, challenge: string): void {
  const problem = JSON.parse(body) as { code?: string; status?: number; type?: string };
  const type = `/problems/${code.replaceAll('_', '-')}`;
  expectEqual({ status, code: problem.code, type: problem.type }, { status: 401, code, type });
  const challenges = headers['www-authenticate'] ?? [];
  if (challenges.length !== 1 || !challenges[0]?.startsWith(challenge))
    throw new Error(`the challenges ${JSON.stringify(challenges)}`);
  expectProblemDocument(headers);
}

export function expectMissingScope({ status, headers, body }: Answer, ...lacking: string[]): void {
  if (status !== 403) throw new Error(`${status} ${body}`);
  const { type, code, scopes } = JSON.parse(body) as { type?: string; code?: string; scopes?: string[] };
  expectEqual({ type, code, scopes }, { type: '/problems/missing-scope', code: 'missing_scope', scopes: lacking });
  expectProblemDocument(headers);
}

function expectProblemDocument(headers: Answer['headers']): void {
  const types = headers['content-type'] ?? [];
  if (types.length !== 1 || !types[0]?.startsWith('application/problem+json'))
    throw new Error(`the content types ${JSON.stringify(types)}`);
}

export function expectUnavailable({ status, headers, body }: Answer): void {
  if (status !== 503) throw new Error(`${status} ${body}`);
  if (headers['retry-after'] === undefined) throw new Error('no Retry-After');
  expectProblemDocument(headers);
}
