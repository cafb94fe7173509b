import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import type { Lane, Progress } from './lane.js';
import { closed } from './send.js';
import type { FuzzedService } from './service.js';

const TIMEOUT_MS = 60_000;
/** The service closes a connection whose responses are not read for 10 s; it checks once a second. */
const UNREAD_MS = 20_000;
const SLOW_READ_INTERVAL_MS = 1_000;
const UNREAD_REQUESTS = 2_000;
const UNREAD_CONNECTIONS = 6;
/** The memory that those connections may cost: it was 2.6 GB before the limit existed. */
const MAX_UNREAD_MEGABYTES = 128;

/** Its status is known, so that a response out of order is noticed. */
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

/** @returns a lane that pipelines requests on one connection; each must have a response, in order */
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
 * @returns what is wrong: the service must close them, and use little memory for them
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

/** @returns the number of responses received until the connection ends */
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
