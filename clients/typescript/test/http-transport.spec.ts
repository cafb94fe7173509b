import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { claimPort } from '../../../tools/claim-port.js';
import { HttpTransport } from '../src/http-transport.js';
import type { ServiceRequest } from '../src/transport.js';

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

  it('does not keep an answer of more than a megabyte', async () => {
    const { url } = await serve((_request, response) => response.end('a'.repeat(2_000_000)));
    expect((await send({ url })).body).toBe('');
  });
});
