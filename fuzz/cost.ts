import { connect } from 'node:net';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { closed } from './send.js';
import type { FuzzedService } from './service.js';

/** Twice the documented limit of about 5 ms (docs/fuzzing.md), because the cores are shared. */
const MAX_CPU_MS = 10;
const MAX_ANSWER_BYTES = 20 * 1024;
const ROUNDS = 20;
const MAX_LOOKS = 3;
const TIMEOUT_MS = 20_000;

const LONG = 'x'.repeat(15_800);
const LOGIN = 'POST /api/v0/auth/login';
const JSON_TYPE = 'Content-Type: application/json';
const names = (count: number): string =>
  `{${Array.from({ length: count }, (_, i) => `"${i.toString(36)}":1`).join(',')}}`;
const parameters = Array.from({ length: 3_500 }, (_, i) => `q${i.toString(36)}`).join('&');
const widest = { params: { [constants.BROTLI_PARAM_LGWIN]: 24 } };
const megabytes = Buffer.alloc(20 * 1024 * 1024, 'x');

type CostlyRequest = readonly [name: string, line: string, headers: readonly string[], body?: string | Buffer];

/** These requests need no credential. */
const REQUESTS: readonly CostlyRequest[] = [
  ['the health of the database', 'GET /health', []],
  ['the document in YAML', 'GET /docs-yaml', []],
  ['11,000 names', LOGIN, [JSON_TYPE], names(11_000)],
  ['11,000 names one level down', LOGIN, [JSON_TYPE], `{"email":${names(11_000)}}`],
  ['32 names', LOGIN, [JSON_TYPE], names(32)],
  ['a list of 50,000 items', LOGIN, [JSON_TYPE], `{"email":[${'1,'.repeat(50_000)}1]}`],
  ['30,000 empty objects', LOGIN, [JSON_TYPE], `{"email":[${'{},'.repeat(30_000)}{}]}`],
  ['one name 14,000 times', LOGIN, [JSON_TYPE], `{${'"a":1,'.repeat(14_000)}"a":1}`],
  ['50,000 levels', LOGIN, [JSON_TYPE], `{"a":${'['.repeat(50_000)}${']'.repeat(50_000)}}`],
  ['an e-mail address of 90 KB', LOGIN, [JSON_TYPE], `{"email":"${'a.'.repeat(45_000)}@x","password":"x"}`],
  [
    'a password of 90 KB',
    'POST /api/v0/auth/register',
    [JSON_TYPE],
    `{"email":"a@x.org","password":"${'x'.repeat(9e4)}"}`,
  ],
  ['a bomb of gzip', LOGIN, [JSON_TYPE, 'Content-Encoding: gzip'], gzipSync(megabytes)],
  ['a bomb of brotli', LOGIN, [JSON_TYPE, 'Content-Encoding: br'], brotliCompressSync(megabytes, widest)],
  ['3,500 parameters', `GET /health/live?${parameters}`, []],
  ['a long path', `GET /${LONG}`, []],
  ['a long path of slashes', `GET /docs${'/'.repeat(15_000)}`, []],
  ['2,000 headers', 'GET /health/live', Array.from({ length: 2_000 }, (_, i) => `${i.toString(36)}:`)],
  ['3,000 headers of one name', 'GET /health/live', Array.from({ length: 3_000 }, () => 'a:')],
  ['a long media type', LOGIN, [`Content-Type: application/json; a="${'\\"'.repeat(7_000)}"`], '{}'],
  ['a bearer without a space', 'GET /api/v0/users/me', [`Authorization: ${LONG}`]],
  ['a long bearer', 'GET /api/v0/users/me', [`Authorization: Bearer ${LONG}`]],
  ['a long node key', 'POST /internal/validate-node', [`X-API-Key: ${':'.repeat(15_000)}`]],
  ['a long X-Forwarded-For', 'GET /health/live', [`X-Forwarded-For: ${'1,'.repeat(7_500)}`]],
  ['many encodings', 'GET /docs-json', [`Accept-Encoding: ${'a,'.repeat(7_500)}`]],
];

/**
 * Sends each costly request alone, several times.
 * @returns which requests cost too much CPU, or have too large a response
 */
export async function judgeCost(service: FuzzedService): Promise<string | undefined> {
  const wrong: string[] = [];
  for (const costly of REQUESTS) {
    const [name, line] = costly;
    const request = toBytes(costly);
    let answered = await sizeOfAnswer(service.port, request);
    let cost = Infinity;
    // Measures again, because other work on the machine can only add to the time.
    for (let looks = 0; cost > MAX_CPU_MS && looks < MAX_LOOKS; looks += 1) {
      const before = service.cpuMilliseconds();
      for (let round = 0; round < ROUNDS; round += 1) answered = await sizeOfAnswer(service.port, request);
      cost = Math.min(cost, (service.cpuMilliseconds() - before) / ROUNDS);
    }
    if (cost > MAX_CPU_MS) wrong.push(`${name}: ${cost.toFixed(1)} ms of CPU`);
    if (answered > MAX_ANSWER_BYTES && !line.includes('/docs')) wrong.push(`${name}: answered with ${answered} bytes`);
  }
  return wrong.length > 0 ? wrong.join('\n  ') : undefined;
}

function toBytes([, line, headers, body = '']: CostlyRequest): Buffer {
  const bytes = Buffer.from(body);
  const head = [`${line} HTTP/1.1`, 'Host: a', 'Connection: close', `Content-Length: ${bytes.length}`, ...headers];
  return Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), bytes]);
}

async function sizeOfAnswer(port: number, request: Buffer): Promise<number> {
  const socket = connect(port, '127.0.0.1').on('error', () => undefined);
  socket.setTimeout(TIMEOUT_MS, () => socket.destroy());
  socket.resume().write(request);
  await closed(socket);
  return socket.bytesRead;
}
