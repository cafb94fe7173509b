import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { ConnectionBounds, MAX_IN_FLIGHT } from '../../../src/foundation/http/connection-bounds.js';
import type { LinkedExpressAdapter } from '../../../src/foundation/http/linked-express.adapter.js';
import type { Log } from '../../../src/foundation/logging/log.js';
import { MetricsEndpoint, MetricsServer } from '../../../src/foundation/metrics/metrics-server.js';
import { eventually } from '../../../tools/eventually.js';
import { UNLEASED } from '../../support/settings.js';
import { useApp } from '../../support/use-app.js';

const TIMEOUT_MS = 10_000;
const MANY_BYTES = 32 * 1_024 * 1_024;

const requests = (count: number, path = '/'): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`.repeat(count);

describe('the limits of a connection', () => {
  let server: Server;
  let bounds: ConnectionBounds;
  /** The open requests, in order of arrival. */
  let served: { path: string; response: ServerResponse }[];
  let accepted: Socket[];
  let clients: Socket[];
  let answer: ((response: ServerResponse) => void) | undefined;

  beforeEach(async () => {
    [served, accepted, clients, answer] = [[], [], [], undefined];
    server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    // The server listens already, so the limits do not sweep by themselves: the test sets the time.
    bounds = new ConnectionBounds(server, ({ url }, response) => {
      if (answer) answer(response);
      else served.push({ path: url!, response });
    });
    server.on('connection', (socket: Socket) => accepted.push(socket));
  });

  afterEach(async () => {
    for (const client of clients) client.destroy();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  const open = async (): Promise<Socket> => {
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => undefined);
    clients.push(client);
    await once(client, 'connect');
    await eventually('the server accepts', () => accepted.length === clients.length);
    return client;
  };

  /** Resolves when the server has read what other connections sent before. */
  const settle = async (): Promise<void> => {
    const before = served.length;
    (await open()).write(requests(1, '/settled'));
    await eventually('a later request is served', () => served.length > before);
    served.splice(before, 1);
  };

  it('serve at most 32 requests of one connection at once, and the others in order', async () => {
    const client = await open();
    let read = '';
    client.on('data', (chunk: Buffer) => (read += chunk.toString()));
    client.write(Array.from({ length: 500 }, (_, i) => requests(1, `/${i}`)).join(''));
    await eventually('the first are served', () => served.length === MAX_IN_FLIGHT);
    await settle();
    expect(served).toHaveLength(MAX_IN_FLIGHT);
    const paths: string[] = [];
    while (paths.length < 500) {
      await eventually('there is one to answer', () => served.length > 0);
      expect(served.length).toBeLessThanOrEqual(MAX_IN_FLIGHT);
      for (const { path, response } of served.splice(0)) {
        paths.push(path);
        response.end(path);
      }
    }
    expect(paths).toEqual(Array.from({ length: 500 }, (_, i) => `/${i}`));
    await eventually('all answers are read', () => read.endsWith('/499'));
    expect(read.match(/HTTP\/1\.1 200/g)).toHaveLength(500);
  });

  it('pause reading of a connection with 32 open requests, and resume after them', async () => {
    const client = await open();
    client.resume();
    const sent = requests(30_000);
    client.write(sent);
    await eventually('requests wait', () => served.length === MAX_IN_FLIGHT);
    for (let i = 0; i < 5; i += 1) await settle();
    expect(accepted[0]!.bytesRead).toBeLessThan(512 * 1_024);
    let answered = 0;
    answer = (response) => {
      answered += 1;
      response.end();
    };
    answered += served.length;
    for (const { response } of served.splice(0)) response.end();
    await eventually('all are answered', () => answered === 30_000);
    expect(accepted[0]!.bytesRead).toBe(sent.length);
  });

  it('close connections when more than 5,000 requests wait, and serve others', async () => {
    for (let i = 0; i < 8; i += 1) (await open()).write(requests(3_000));
    await eventually('one is closed', () => accepted.some(({ destroyed }) => destroyed));
    await settle();
    expect(accepted.some(({ destroyed }) => !destroyed)).toBe(true);
  });

  describe('with a response larger than the socket buffers', () => {
    const unread = async (): Promise<Socket> => {
      const client = await open();
      client.pause().write(requests(1));
      await eventually('it is served', () => served.length === 1);
      served.pop()!.response.end(Buffer.alloc(MANY_BYTES));
      await eventually('the client does not read', () => accepted[0]!.writableLength > 0);
      return client;
    };

    it('close a connection whose client has not read for 10 s', async () => {
      await unread();
      const now = Math.floor(performance.now());
      bounds.closeUnread(now);
      bounds.closeUnread(now + TIMEOUT_MS - 1);
      expect(accepted[0]!.destroyed).toBe(false);
      bounds.closeUnread(now + TIMEOUT_MS);
      expect(accepted[0]!.destroyed).toBe(true);
    });

    it('close one whose client reads a byte at a time', async () => {
      const client = await unread();
      const now = Math.floor(performance.now());
      for (let second = 0; second <= TIMEOUT_MS / 1_000; second += 1) {
        client.read(1);
        bounds.closeUnread(now + second * 1_000);
      }
      expect(accepted[0]!.destroyed).toBe(true);
    });

    it('keep one whose client has read everything, at any time', async () => {
      const client = await unread();
      const now = Math.floor(performance.now());
      bounds.closeUnread(now);
      client.resume();
      await eventually('all is read', () => accepted[0]!.writableLength === 0);
      bounds.closeUnread(now + TIMEOUT_MS);
      bounds.closeUnread(now + 2 * TIMEOUT_MS);
      expect(accepted[0]!.destroyed).toBe(false);
    });
  });

  it('keep a connection whose client reads slowly', async () => {
    const client = await open();
    client.pause().write(requests(1));
    await eventually('it is served', () => served.length === 1);
    const { response } = served.pop()!;
    const slice = Buffer.alloc(64 * 1_024);
    const now = Math.floor(performance.now());
    for (let round = 0; round < 4; round += 1) {
      while (response.write(slice));
      bounds.closeUnread(now + round * TIMEOUT_MS);
      expect(accepted[0]!.destroyed).toBe(false);
      const taken = (): number => accepted[0]!.bytesWritten - accepted[0]!.writableLength;
      const before = taken();
      client.resume();
      await eventually(
        'some of it is read',
        () => taken() - before >= slice.length || accepted[0]!.writableLength === 0,
      );
      client.pause();
      response.write(slice);
    }
  });
});

describe('the metrics server, pipelined to', () => {
  it('collects metrics for at most 32 requests at once', async () => {
    let reads = 0;
    const read = (): Promise<string> => {
      reads += 1;
      return new Promise(() => undefined);
    };
    const endpoint = await MetricsEndpoint.open({ port: 0, host: '127.0.0.1', log: undefined as unknown as Log, read });
    const client = connect(endpoint.port!, '127.0.0.1').on('error', () => undefined);
    client.write(requests(100, '/metrics'));
    await eventually('the metrics are read', () => reads >= MAX_IN_FLIGHT);
    await fetch(`http://127.0.0.1:${endpoint.port}/nowhere`);
    expect(reads).toBe(MAX_IN_FLIGHT);
    client.destroy();
    await endpoint.close();
  });
});

const app = useApp({ variables: { ...UNLEASED, METRICS_PORT: '0' } });

describe('every server', () => {
  it('ends a slow request within a second of its limit, where Node.js looks every 30 seconds', () => {
    const adapter = app.nest.getHttpAdapter() as unknown as LinkedExpressAdapter;
    const { endpoint } = app.nest.get<unknown, { endpoint: { server: Server } }>(MetricsServer);
    for (const server of [app.server, adapter.createInternalServer(), endpoint.server])
      expect(server).toMatchObject({ connectionsCheckingInterval: 1_000 });
  });
});

describe('the service, pipelined to', () => {
  let client: Socket;
  /** The service's end of the client's connection. */
  let accepted: Socket | undefined;

  beforeAll(async () => {
    await app.get('/docs-yaml').expect(200);
    app.server.on('connection', (socket: Socket) => {
      if (socket.remotePort === client.localPort) accepted = socket;
    });
  });

  beforeEach(async () => {
    accepted = undefined;
    client = connect((app.server.address() as AddressInfo).port, '127.0.0.1').on('error', () => undefined);
    await eventually('it is accepted', () => accepted !== undefined);
  });

  afterEach(() => {
    client.destroy();
  });

  it('answers all of 1,200 requests for its document, and others in between', async () => {
    const request = 'GET /docs-yaml HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n';
    let answers = 0;
    client.on('data', (chunk: Buffer) => (answers += chunk.toString('latin1').split('HTTP/1.1 200 ').length - 1));
    const closed = once(client, 'close');
    client.write(request.repeat(1_199) + request.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'));
    await eventually('the first answer arrives', () => answers > 0);
    await app.get('/health/live').expect(200);
    await closed;
    expect(answers).toBeGreaterThan(1_190);
  });

  it('closes a connection that does not read the responses', async () => {
    client.pause();
    client.write('GET /docs-yaml HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(1_200));
    const { bounds } = app.nest.getHttpAdapter() as unknown as LinkedExpressAdapter;
    let now = performance.now();
    await eventually('it is closed', () => {
      client.read(1);
      bounds.closeUnread((now += TIMEOUT_MS / 2));
      return accepted!.destroyed;
    });
    await app.get('/health/live').expect(200);
  });
});
