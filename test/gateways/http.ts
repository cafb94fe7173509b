// HTTP as a hostile client sends it, and servers that say what they received.
import { createHash, type Hash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { z } from 'zod';
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

export interface Question {
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
