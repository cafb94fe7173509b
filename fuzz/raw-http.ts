import { connect } from 'node:net';
import fc from 'fast-check';
import { leakOfAnswer, SECRET } from './canaries.js';
import type { Lane, Progress } from './lane.js';

const SILENCE_TIMEOUT_MS = 100;
const TIMEOUT_MS = 5_000;

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

/** @returns a lane that sends malformed HTTP; each response must be valid HTTP, and none may be a 5xx */
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
    const timer = setTimeout(() => socket.destroy(), TIMEOUT_MS);
    socket.on('data', (chunk) => (answer += chunk.toString('latin1')));
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearTimeout(timer);
      resolve(answer);
    });
  });
}

/** Closing without a response is allowed: some requests cannot be answered. */
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
