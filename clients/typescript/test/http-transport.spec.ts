import { once } from 'node:events';
import type { LookupOptions } from 'node:dns';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo, LookupFunction } from 'node:net';
import { claimPort } from '../../../tools/claim-port.js';
import { eventually } from '../../../tools/eventually.js';
import { HttpTransport } from '../src/http-transport.js';
import { SharedLookups } from '../src/shared-lookups.js';
import type { ServiceRequest } from '../src/transport.js';

/** A look-up of names that answers when the test says so. */
class HeldLookup {
  readonly asked: { hostname: string; answer: () => void; fail: () => void }[] = [];

  readonly lookup: LookupFunction = (hostname, { all }, callback) => {
    const answer = (): void =>
      all ? callback(null, [{ address: '127.0.0.1', family: 4 }]) : callback(null, '127.0.0.1', 4);
    this.asked.push({ hostname, answer, fail: () => callback(new Error('EAI_AGAIN'), '') });
  };
}

const transport = new HttpTransport();
const servers: Server[] = [];

async function serve(listener: RequestListener): Promise<{ url: string; connections: () => number }> {
  const server = createServer(listener);
  servers.push(server);
  let connections = 0;
  server.on('connection', () => (connections += 1));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, connections: () => connections };
}

const send = (request: Partial<ServiceRequest> & { url: string }, signal = new AbortController().signal) =>
  transport.send({ method: 'POST', headers: {}, ...request }, signal);

afterAll(() => {
  transport.close();
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
});

describe('the transport over HTTP', () => {
  it('sends method, headers and body, and reads status, headers and body', async () => {
    const { url } = await serve((request, response) => {
      void request.toArray().then((chunks: Buffer[]) => {
        const seen = `${request.method} ${request.url} ${String(request.headers['x-a'])} ${Buffer.concat(chunks).toString()}`;
        response.writeHead(201, { 'X-Seen': 'yes' }).end(seen);
      });
    });
    const answer = await send({ url: `${url}/path`, headers: { 'X-A': 'b' }, body: 'é' });
    expect(answer).toMatchObject({ status: 201, headers: { 'x-seen': 'yes' }, body: 'POST /path b é' });
  });

  it('keeps one connection for polls, apart from that of questions', async () => {
    const { url, connections } = await serve((_request, response) => response.end());
    for (let i = 0; i < 5; i += 1) await send({ url, isPoll: true });
    expect(connections()).toBe(1);
    for (let i = 0; i < 5; i += 1) await send({ url });
    expect(connections()).toBe(2);
  });

  it('does not follow a redirect', async () => {
    const { url } = await serve((_request, response) => response.writeHead(302, { Location: '/elsewhere' }).end());
    expect((await send({ url })).status).toBe(302);
  });

  it('tells a refused connection', async () => {
    await expect(send({ url: `http://127.0.0.1:${await claimPort()}` })).rejects.toMatchObject({
      name: 'ConnectionError',
    });
  });

  it.each<[string, RequestListener]>([
    ['before the answer', (request) => request.socket.destroy()],
    [
      'within the answer',
      (_request, response) => {
        response.writeHead(200, { 'Content-Length': '10' }).write('12345', () => response.destroy());
      },
    ],
  ])('tells a connection that broke %s', async (_when, listener) => {
    const { url } = await serve(listener);
    await expect(send({ url })).rejects.toMatchObject({ name: 'ConnectionError' });
  });

  it('ends a request that is aborted', async () => {
    const { url } = await serve(() => undefined);
    const controller = new AbortController();
    const answered = send({ url }, controller.signal);
    controller.abort();
    await expect(answered).rejects.toThrow();
  });

  it('takes HTTPS in any letter case for HTTPS', async () => {
    const { url } = await serve((_request, response) => response.end());
    const answered = send({ url: url.replace('http:', 'HTTPS:') });
    await expect(answered).rejects.toMatchObject({ name: 'ConnectionError' });
  });

  it('reads nothing of an answer that is not in UTF-8', async () => {
    const { url } = await serve((_request, response) => response.end(Buffer.from([0x22, 0xff, 0x22])));
    expect((await send({ url })).body).toBe('');
  });

  it('does not keep an answer of more than a megabyte', async () => {
    const { url } = await serve((_request, response) => response.end('a'.repeat(2_000_000)));
    expect((await send({ url })).body).toBe('');
  });
});

describe('the look-ups of the transport over HTTP', () => {
  const { lookup, asked } = new HeldLookup();
  const own = new HttpTransport(lookup);
  const ask = (url: string, request: Partial<ServiceRequest> = {}, signal = new AbortController().signal) =>
    own.send({ method: 'POST', url, headers: {}, ...request }, signal);
  let url: string;

  beforeAll(async () => {
    const served = await serve((_request, response) => response.end('yes'));
    url = served.url.replace('127.0.0.1', 'auth.test');
  });

  afterEach(() => asked.splice(0));

  afterAll(() => own.close());

  it('are one at a time for all requests, polls among them, also after many were given up', async () => {
    for (let i = 0; i < 200; i += 1) {
      const controller = new AbortController();
      const given = ask(url, { isPoll: i % 2 === 0 }, controller.signal);
      await new Promise((resolve) => setImmediate(resolve));
      controller.abort();
      await expect(given).rejects.toThrow();
    }
    const answered = Promise.all([ask(url), ask(url), ask(url, { isPoll: true })]);
    await new Promise((resolve) => setImmediate(resolve));
    const names = asked.map(({ hostname }) => hostname);
    const waiting = Array.from(own['lookups']['pending'].values(), ({ size }) => size);
    for (const { answer } of asked) answer();
    expect((await answered).map(({ body }) => body)).toEqual(['yes', 'yes', 'yes']);
    // Aborted requests do not wait for the look-up.
    expect([names, waiting]).toEqual([['auth.test'], [3]]);
  });

  it('fail as connections do', async () => {
    const refused = expect(ask(`http://other.test:1`)).rejects.toMatchObject({ name: 'ConnectionError' });
    await eventually('the name is looked up', () => asked.length === 1);
    asked[0]!.fail();
    await refused;
  });
});

describe('look-ups that are shared', () => {
  const held = new HeldLookup();
  const shared = new SharedLookups(held.lookup);
  const join = (hostname: string, options: LookupOptions, heard: unknown[]) =>
    shared.join(hostname, options, (...found) => heard.push(found));
  afterEach(() => held.asked.splice(0));

  it('answer all that wait in the form that they asked for, and not one that has left', () => {
    const [one, two, left, all, sixth]: unknown[][] = [[], [], [], [], []];
    join('auth.test', {}, one!);
    const leave = join('auth.test', {}, left!);
    join('auth.test', {}, two!);
    join('auth.test', { all: true }, all!);
    join('auth.test', { family: 6 }, sixth!);
    expect(held.asked).toHaveLength(3);
    leave();
    for (const { answer } of held.asked) answer();
    expect([one, two, left, sixth]).toEqual([
      [[null, '127.0.0.1', 4]],
      [[null, '127.0.0.1', 4]],
      [],
      [[null, '127.0.0.1', 4]],
    ]);
    expect(all).toEqual([[null, [{ address: '127.0.0.1', family: 4 }]]]);
  });

  it('are not remembered: neither an answer nor a failure', () => {
    const heard: unknown[][] = [];
    for (const end of ['answer', 'fail', 'answer'] as const) {
      join('auth.test', {}, heard);
      held.asked.at(-1)![end]();
    }
    expect(held.asked).toHaveLength(3);
    expect(heard.map(([error]) => error === null)).toEqual([true, false, true]);
  });

  it('of several names are independent', () => {
    const heard: unknown[][] = [];
    join('auth.test', {}, heard);
    join('keys.test', {}, heard);
    expect(held.asked.map(({ hostname }) => hostname)).toEqual(['auth.test', 'keys.test']);
  });
});
