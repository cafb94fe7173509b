import type { IncomingMessage, ServerResponse } from 'node:http';
import type { LogLine } from '../../../src/foundation/logging/log.js';
import { LogShipper } from '../../../src/foundation/logging/log-shipper.js';
import { eventually } from '../../../tools/eventually.js';
import { serve } from '../../support/serve.js';
import { type Service, TestApp } from '../../support/test-app.js';
import { useApp } from '../../support/use-app.js';

type Answer = (logs: LogLine[], request: IncomingMessage, response: ServerResponse) => void | Promise<void>;

const answering =
  (status: number, headers = {}): Answer =>
  (_logs, _request, response) =>
    void response.writeHead(status, headers).end();

/** An HTTP server in place of the logging service. */
class StandIn {
  readonly deliveries: LogLine[][] = [];
  answer: Answer = answering(202);
  url!: string;
  stop!: () => void;

  static async start(): Promise<StandIn> {
    const standIn = new StandIn();
    const { url, close } = await serve((request, response) => void standIn.receive(request, response));
    return Object.assign(standIn, { url: `${url}/logs`, stop: close });
  }

  get lines(): LogLine[] {
    return this.deliveries.flat();
  }

  private async receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = '';
    for await (const chunk of request) text += String(chunk);
    const { logs } = JSON.parse(text) as { logs: LogLine[] };
    this.deliveries.push(logs);
    await this.answer(logs, request, response);
  }
}

const line = (message: string): LogLine => ({
  timestamp: '2026-01-01T00:00:00.000Z',
  level: 'info',
  service: 'platform-auth',
  message,
  context: {},
});

describe('the log shipper', () => {
  let standIn: StandIn;
  const undelivered: LogLine[] = [];
  const states: boolean[] = [];

  const shipperTo = (url: string): LogShipper<LogLine> =>
    new LogShipper({
      url,
      appId: 'id',
      appKey: 'key',
      onUndelivered: (lines) => undelivered.push(...lines),
      onStateChange: (isDelivering) => states.push(isDelivering),
    });

  beforeEach(async () => {
    standIn = await StandIn.start();
    undelivered.length = 0;
    states.length = 0;
  });

  afterEach(() => standIn.stop());

  it('delivers waiting lines in one batch, with its credential', async () => {
    let headers: IncomingMessage['headers'] = {};
    standIn.answer = (_logs, request, response) => {
      headers = request.headers;
      response.end();
    };
    const shipper = shipperTo(standIn.url);
    expect([shipper.enqueue(line('one')), shipper.enqueue(line('two'))]).toEqual([true, true]);
    await shipper.stop();
    expect(standIn.deliveries).toEqual([[line('one'), line('two')]]);
    expect(headers).toMatchObject({ 'x-platform-app-id': 'id', 'x-platform-app-key': 'key' });
    expect(undelivered).toEqual([]);
  });

  it.each([
    ['answers 500', answering(500)],
    ['answers 401', answering(401)],
    ['redirects', answering(307, { Location: '/logs' })],
    ['hangs up', (_l: LogLine[], request: IncomingMessage) => void request.socket.destroy()],
    ['hangs', () => undefined],
  ] satisfies [string, Answer][])(
    'returns the lines, once and in order, when the service %s',
    async (_name, answer) => {
      standIn.answer = answer;
      const shipper = shipperTo(standIn.url);
      shipper.enqueue(line('one'));
      shipper.enqueue(line('two'));
      await shipper.flush();
      expect(undelivered).toEqual([line('one'), line('two')]);
      expect(standIn.deliveries).toHaveLength(1);
      expect(states).toEqual([false]);
      await shipper.stop();
    },
  );

  it('accepts one line at a time while the service is unreachable, and reports that once', async () => {
    standIn.stop();
    const shipper = shipperTo(standIn.url);
    shipper.enqueue(line('first'));
    await shipper.flush();
    for (let i = 0; i < 5; i++) {
      expect(shipper.enqueue(line('probe'))).toBe(true);
      expect(shipper.enqueue(line('for the console'))).toBe(false);
      await shipper.flush();
    }
    expect(states).toEqual([false]);
    expect(undelivered).toHaveLength(6);
    await shipper.stop();
  });

  it('queues a bounded number of lines while a delivery hangs', async () => {
    standIn.answer = () => undefined;
    const shipper = shipperTo(standIn.url);
    const taken = Array.from({ length: 20_000 }, (_, i) => shipper.enqueue(line(String(i)))).filter(Boolean);
    expect(taken.length).toBeLessThan(6_000);
    await shipper.flush();
    await shipper.stop();
    expect(undelivered).toHaveLength(taken.length);
  });

  it('finishes a flush while new lines arrive', async () => {
    const shipper = shipperTo(standIn.url);
    standIn.answer = (_logs, _request, response) => {
      shipper.enqueue(line('about the delivery'));
      response.end();
    };
    shipper.enqueue(line('first'));
    await shipper.flush();
    expect(standIn.lines.map(({ message }) => message)).toEqual(['first']);
    await shipper.stop();
    expect(standIn.lines.map(({ message }) => message)).toEqual(['first', 'about the delivery']);
    expect(shipper.enqueue(line('after the stop'))).toBe(false);
  });

  it('returns the waiting lines when it is abandoned', async () => {
    const shipper = shipperTo('http://127.0.0.1:9/logs');
    shipper.enqueue(line('first'));
    shipper.abandon();
    expect(undelivered.map(({ message }) => message)).toEqual(['first']);
    await shipper.stop();
  });
});

describe('a stop', () => {
  it('delivers the waiting lines', async () => {
    const standIn = await StandIn.start();
    const app = await TestApp.start({ variables: { LOG_LEVEL: 'info', LOGGING_SERVICE_URL: standIn.url } });
    let [calls, delivered] = [0, 0];
    // A line that a delivery has taken up meanwhile does not wait: then another is written.
    await eventually('a line waits', async () => {
      await app.get('/health/live').expect(200);
      calls += 1;
      delivered = standIn.lines.length;
      return delivered < calls;
    });
    await app.stop();
    expect(standIn.lines.filter(({ context }) => context.route === '/health/live')).toHaveLength(calls);
    expect(standIn.lines.length).toBeGreaterThan(delivered);
    standIn.stop();
  });
});

describe('a logging service that validates each delivery through this service', () => {
  const operator = useApp();
  let own: Service;
  let standIn: StandIn;
  let app: TestApp;

  beforeAll(async () => {
    own = await operator.service('auth', 'logging');
    standIn = await StandIn.start();
    app = await operator.startReplica({
      variables: {
        LOG_LEVEL: 'debug',
        // On a machine that stalls, the change feed would log lines of its own.
        REVOCATION_LEASE_MS: '0',
        LOGGING_SERVICE_URL: standIn.url,
        LOGGING_APP_ID: own.appId,
        LOGGING_APP_KEY: own.appKey,
      },
    });
  });

  afterAll(async () => {
    await app.stop();
    standIn.stop();
  });

  it.each([
    ['as documented', '/internal/validate-app', 'id', 'key', 200],
    ['with a wrong key', '/internal/validate-app', 'id', 'wrong', 401],
    ['at a path with a slash', '/internal/validate-app/', 'id', 'key', 404],
    ['at a path with a query', '/internal/validate-app?x=1', 'id', 'key', 400],
    ['at a path in capitals', '/INTERNAL/validate-app', 'id', 'key', 404],
    ['with its id in capitals', '/internal/validate-app', 'ID', 'key', 200],
    ['by a gateway', '/internal/authorize/app/logs', 'id', 'key', 200],
    ['by a gateway, with a wrong key', '/internal/authorize/app/logs', 'id', 'wrong', 401],
  ])(
    '%s, receives no lines about these validations, which would cause endless traffic',
    async (_how, path, id, key, status) => {
      const verdicts: number[] = [];
      standIn.deliveries.length = 0;
      standIn.answer = async (_logs, { headers }, response) => {
        const presented = {
          'X-Platform-App-Id': id === 'ID' ? own.appId.toUpperCase() : String(headers['x-platform-app-id']),
          'X-Platform-App-Key': key === 'wrong' ? key : String(headers['x-platform-app-key']),
          ...(path.includes('authorize') && { 'X-Platform-Target': 'logging' }),
        };
        verdicts.push((await app.post(path, { target: 'logging' }).set(presented)).status);
        response.end();
      };
      for (let i = 0; i < 20; i++) await app.get('/health/live').expect(200);

      // The first flush delivers the lines of the load; lines about that delivery would be in the second.
      await app.log.flush();
      const deliveries = standIn.deliveries.length;
      await app.log.flush();

      expect(standIn.deliveries).toHaveLength(deliveries);
      expect(standIn.lines.filter(({ context }) => context.route === '/health/live')).toHaveLength(20);
      const others = standIn.lines.filter(({ context }) => context.route !== '/health/live');
      expect(others.filter(({ message }) => message === 'request')).toEqual([]);
      expect(verdicts).toEqual(standIn.deliveries.map(() => status));
    },
  );
});
