// Lanes that write to the socket themselves: pipelined requests, responses that the client does not read, and malformed
// HTTP.
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import type { Lane, Progress } from './lane.js';
import { closed } from './send.js';
import type { FuzzedService } from './service.js';
import { leakOfAnswer, SECRET } from './canaries.js';

const TIMEOUT_MS = 60_000;
/** The service closes a connection whose responses are not read for 10 s, and checks once a second. */
const UNREAD_MS = 20_000;
const SLOW_READ_INTERVAL_MS = 1_000;
const UNREAD_REQUESTS = 2_000;
const UNREAD_CONNECTIONS = 6;
/** The most memory that these connections may cost. Without a limit they would cost gigabytes. */
const MAX_UNREAD_MEGABYTES = 128;

/** A request with a known status, so that a response out of order is noticed. */
interface KnownRequest {
  readonly text: string;
  readonly status: number;
}

const KNOWN: readonly KnownRequest[] = [
  { text: 'GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n', status: 200 },
  { text: 'GET /docs HTTP/1.1\r\nHost: a\r\n\r\n', status: 200 },
  { text: 'GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n', status: 404 },
  { text: 'GET /api/v0/users/me HTTP/1.1\r\nHost: a\r\n\r\n', status: 401 },
  {
    text: 'POST /internal/validate-node HTTP/1.1\r\nHost: a\r\nX-API-Key: a:b\r\nContent-Length: 0\r\n\r\n',
    status: 401,
  },
  {
    text: 'POST /internal/validate-app HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{',
    status: 400,
  },
];
const LAST = 'GET /health/live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n';

/** @returns a lane that pipelines requests on one connection, each of which must have a response, in order */
export function createPipelineLane(port: number, progress: Progress): Lane<KnownRequest[]> {
  const attempt = async (pipeline: KnownRequest[]): Promise<string | undefined> => {
    const text = pipeline.map((request) => request.text).join('') + LAST;
    const answer = await readAll(port, text);
    progress.requests += 1;
    const statuses = [...answer.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
    const expected = [...pipeline.map((request) => request.status), 200];
    if (statuses.join() === expected.join()) return undefined;
    return `a pipeline of ${expected.length} requests was answered ${statuses.join()}, not ${expected.join()}`;
  };
  const requests = fc.array(fc.constantFrom(...KNOWN), { minLength: 1, maxLength: 300, size: 'max' });
  return { name: 'pipelined requests', requests, attempt };
}

async function readAll(port: number, text: string): Promise<string> {
  const chunks: Buffer[] = [];
  const socket = connect(port, '127.0.0.1').on('error', () => undefined);
  const timer = setTimeout(() => socket.destroy(), TIMEOUT_MS);
  socket.on('data', (chunk) => chunks.push(chunk));
  socket.write(text);
  await closed(socket);
  clearTimeout(timer);
  return Buffer.concat(chunks).toString('latin1');
}

/**
 * Clients pipeline requests for the largest page and do not read the responses; one reads a byte a second.
 * @returns what is wrong: the service must close the connections, and use little memory for them
 */
export async function judgeUnread(service: FuzzedService): Promise<string | undefined> {
  const before = service.residentMegabytes();
  const clients = Array.from({ length: UNREAD_CONNECTIONS }, () => connect(service.port, '127.0.0.1').pause());
  for (const client of clients) {
    client.on('error', () => undefined);
    client.write('GET /docs-yaml HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(UNREAD_REQUESTS));
  }
  let most = 0;
  for (const end = Date.now() + UNREAD_MS; Date.now() < end;) {
    clients[0]?.read(1);
    most = Math.max(most, service.residentMegabytes() ?? 0);
    await sleep(SLOW_READ_INTERVAL_MS);
  }
  const answers = await Promise.all(clients.map((client) => restOf(client)));
  if (answers.some((count) => count >= UNREAD_REQUESTS)) return 'a connection that did not read was not closed';
  if (before !== undefined && most > before + MAX_UNREAD_MEGABYTES)
    return `${before} MB before, ${most} MB while ${UNREAD_CONNECTIONS} clients did not read their responses`;
  return undefined;
}

/** @returns the number of responses until the connection ends */
async function restOf(client: Socket): Promise<number> {
  let answers = 0;
  const timer = setTimeout(() => {
    answers = Infinity;
    client.destroy();
  }, TIMEOUT_MS);
  client.on('data', (chunk) => (answers += chunk.toString('latin1').split('HTTP/1.1 200').length - 1));
  client.resume();
  await closed(client);
  clearTimeout(timer);
  return answers;
}

const SILENCE_TIMEOUT_MS = 100;
const RAW_TIMEOUT_MS = 5_000;

const REQUEST_LINES = [
  ...['GET /health/live HTTP/1.1', 'POST /api/v0/auth/login HTTP/1.1', 'POST /internal/validate-node HTTP/1.1'],
  ...['GET /health/live HTTP/1.0', 'GET /health/live', 'GET /health/live HTTP/9.9', 'GET  /health/live  HTTP/1.1', ''],
  ...['get /health/live HTTP/1.1', 'GET http://example.org/health/live HTTP/1.1', 'OPTIONS * HTTP/1.1'],
  ...['GET * HTTP/1.1', 'CONNECT example.org:443 HTTP/1.1', 'PRI * HTTP/2.0', `GET /${SECRET}\u0000 HTTP/1.1`],
  ...[`GET /${SECRET} \xff HTTP/1.1`, `${SECRET} / HTTP/1.1`, `GET /${SECRET}#x HTTP/1.1`, 'GET ? HTTP/1.1'],
  ...['GET //evil/%2e%2e HTTP/1.1', 'TRACE / HTTP/1.1'],
];
const HEADERS = [
  ...['Host: a', 'Host:', 'Host: a\r\nHost: b', `Host: ${SECRET}@x/`, 'Connection: close'],
  'Connection: keep-alive, upgrade',
  ...['Content-Length: 5', 'Content-Length: -1', 'Content-Length: 5, 6', 'Content-Length: 99999999999999999999'],
  ...['Content-Length: 5\r\nContent-Length: 6', 'Transfer-Encoding: chunked'],
  ...['Transfer-Encoding: chunked\r\nContent-Length: 3', 'Transfer-Encoding: identity'],
  ...[`Transfer-Encoding: ${SECRET}, chunked`, 'Transfer-Encoding : chunked', 'Expect: 100-continue'],
  ...[`Expect: ${SECRET}`, 'Upgrade: websocket', 'Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk'],
  ...[`X-Folded: a\r\n ${SECRET}`, `: ${SECRET}`, `X y: ${SECRET}`, `X-API-Key: ${SECRET}\u0000`],
  ...[`X-Admin-Key: ${SECRET}\r`, 'Content-Type: application/json', `X-API-Key: ${SECRET}\u001b[31m`],
  ...[`X-Long: ${'x'.repeat(20_000)}`, 'Trailer: X-Admin-Key', 'TE: trailers', SECRET],
];
const BODIES = [
  ...['', '{}', '{"a":1}', '5\r\n{"a":\r\n0\r\n\r\n', `ffffffffff\r\n${SECRET}`, '-1\r\nx\r\n', 'zz\r\n'],
  ...['2;x="\r\n{}\r\n0\r\n\r\n', '2\r\n{}\r\n0\r\nX-Admin-Key: x\r\n\r\n'],
  ...['GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n', `\r\n\r\n${SECRET}`, '\u0000\u0001'],
];
/** Three of five are correct. */
const LINE_ENDS = ['\r\n', '\r\n', '\r\n', '\n', '\r'];
const BINARIES = ['160301020001000', '00', 'ffff', '0d0a0d0a'];

/** @returns a lane that sends malformed HTTP, to which each response must be valid HTTP and not a 5xx */
export function createRawLane(port: number, progress: Progress): Lane<string> {
  const attempt = async (text: string): Promise<string | undefined> => {
    const wrong = wrongIn(await exchange(port, text));
    progress.requests += 1;
    return wrong && `${wrong}\n  printf %b ${JSON.stringify(escape(text))} | nc 127.0.0.1 ${port}`;
  };
  return { name: 'malformed HTTP', requests: malformedHttp(), attempt };
}

/** Bytes that are not valid HTTP, or that no client library would send. */
function malformedHttp(): fc.Arbitrary<string> {
  const line = fc.constantFrom(...REQUEST_LINES);
  const header = fc.oneof(
    fc.constantFrom(...HEADERS),
    fc.string({ unit: 'binary-ascii', maxLength: 30 }).map((text) => `X-Junk: ${text}`),
  );
  const message = fc
    .tuple(line, fc.array(header, { maxLength: 4 }), fc.constantFrom(...BODIES), fc.constantFrom(...LINE_ENDS))
    .map(([first, headers, rest, end]) => `${[first, ...headers].join(end)}${end}${end}${rest}`);
  const binary = fc.constantFrom(...BINARIES).map((hex) => Buffer.from(hex, 'hex').toString('latin1'));
  return fc.oneof(
    { weight: 12, arbitrary: message },
    { weight: 2, arbitrary: fc.tuple(message, message).map((two) => two.join('')) },
    { weight: 1, arbitrary: fc.tuple(message, fc.nat(60)).map(([text, length]) => text.slice(0, length)) },
    { weight: 1, arbitrary: binary },
  );
}

/** Sends, and waits until the service closes the connection or sends nothing for a while. */
function exchange(port: number, text: string): Promise<string> {
  return new Promise((resolve) => {
    let answer = '';
    const socket = connect(port, '127.0.0.1', () => socket.write(Buffer.from(text, 'latin1')));
    socket.setTimeout(SILENCE_TIMEOUT_MS, () => socket.destroy());
    const timer = setTimeout(() => socket.destroy(), RAW_TIMEOUT_MS);
    socket.on('data', (chunk) => (answer += chunk.toString('latin1')));
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearTimeout(timer);
      resolve(answer);
    });
  });
}

/** The service may close without a response, because some requests cannot be answered. */
function wrongIn(answer: string): string | undefined {
  if (answer !== '' && !answer.startsWith('HTTP/1.1 ')) return `the response is not HTTP: ${answer.slice(0, 100)}`;
  for (const [head, status] of answer.matchAll(/^HTTP\/1\.1 (\d{3}) [^]*?\r\n\r\n/gm)) {
    if (Number(status) >= 500) return `the service failed: ${answer.slice(0, 300)}`;
    if (Number(status) >= 400 && !/^content-type: application\/problem\+json/im.test(head))
      return `${status} is not a problem document: ${head.trim()}`;
  }
  return leakOfAnswer(400, answer);
}

function escape(text: string): string {
  const characters = text.split('').map((character) => {
    const code = character.charCodeAt(0).toString(16).padStart(2, '0');
    return /[\x20-\x7e]/.test(character) && character !== '\\' ? character : `\\x${code}`;
  });
  return characters.join('');
}
