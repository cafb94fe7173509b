import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Caller, type CallFailed } from '../support/caller.js';
import { eventually } from '../../tools/eventually.js';
import { holdTable } from '../support/row-lock.js';
import { endAll, ServiceProcess } from '../support/service-process.js';
import { VARIABLES, withSettings } from '../support/settings.js';
import { useTestDatabase } from '../support/test-database.js';

const CALLERS = 50;

describe('a graceful shutdown', () => {
  const database = useTestDatabase();
  let service: ServiceProcess;
  let callers: Caller[];
  let node: Record<string, string>;

  const start = async (delayMs: string, shutdownDeadlineMs = 40_000): Promise<void> => {
    service = await ServiceProcess.start({
      ...VARIABLES,
      DATABASE_URL: database.url,
      ...withSettings({ databaseStatementTimeoutMs: 15_000, shutdownDeadlineMs }),
      // Each validation queries the database, where a test can block it.
      REVOCATION_LEASE_MS: '0',
      SHUTDOWN_DELAY_MS: delayMs,
    });
    callers = Array.from({ length: CALLERS }, () => new Caller(service.url));
    node = (await service.issueNode()).headers;
  };

  afterEach(async () => {
    for (const caller of callers) caller.hangUp();
    await endAll();
  });

  const validate = (caller: Caller) => caller.call('/internal/validate-node', { headers: node });

  /** Waits until new connections are refused. */
  const refused = () =>
    eventually('new connections are refused', async () => {
      const socket = connect(service.port, '127.0.0.1');
      const [event] = await Promise.race([
        once(socket, 'connect').then(() => ['connect']),
        once(socket, 'error').then(() => ['error']),
      ]).catch(() => ['error']);
      socket.destroy();
      return event === 'error';
    });

  it.each(['SIGTERM', 'SIGINT'] as const)(
    'on %s first reports unready, fails no request meanwhile, and exits with 0',
    async (signal) => {
      await start('10000');
      const answers: number[] = [];
      let isReady = true;
      // Behind a load balancer, a caller uses another replica once this one is not ready.
      const callOn = async (caller: Caller): Promise<void> => {
        while (isReady) answers.push(await validate(caller));
      };
      const calling = Promise.all(callers.map(callOn));
      await eventually('all callers are at it', () => answers.length > 10 * CALLERS);
      service.kill(signal);
      await eventually('it is unready', async () => (await service.status('/health')) === 503);
      expect(await service.status('/health/live')).toBe(200);
      service.kill(signal);
      isReady = false;
      await calling;
      expect(new Set(answers)).toEqual(new Set([200]));
      expect(await service.exited()).toBe(0);
    },
    240_000,
  );

  it('refuses only new connections after it has stopped listening', async () => {
    await start('1000');
    const failures: CallFailed[] = [];
    const answers: number[] = [];
    // These callers do not check readiness.
    const callOn = async (caller: Caller): Promise<void> => {
      for (;;) answers.push(await validate(caller));
    };
    const calling = callers.map((caller) =>
      callOn(caller).catch((error: unknown) => failures.push(error as CallFailed)),
    );
    await eventually('all callers are at it', () => answers.length > 10 * CALLERS);
    service.kill('SIGTERM');
    await Promise.all(calling);
    expect(new Set(answers)).toEqual(new Set([200]));
    // A reset on a new connection is the kernel's refusal of one that the service has not seen.
    expect(failures.filter(({ code, wasReused }) => wasReused || !/^ECONN(REFUSED|RESET)$/.test(code ?? ''))).toEqual(
      [],
    );
    expect(await service.exited()).toBe(0);
  }, 240_000);

  it.each(['0', '300'])(
    'answers open requests when it stops listening (delay %s ms)',
    async (delayMs) => {
      await start(delayMs);
      await Promise.all(callers.map(validate));
      const table = await holdTable(database, 'nodes');
      const answers = Promise.all(callers.map(validate));
      // Concurrent validations share a statement. A response to a later request shows that all have arrived.
      await table.waiting(1);
      expect((await fetch(`${service.url}/health/live`)).status).toBe(200);
      service.kill('SIGTERM');
      await refused();
      await table.release();
      expect(new Set(await answers)).toEqual(new Set([200]));
      expect(await service.exited()).toBe(0);
    },
    240_000,
  );

  it('is not delayed by clients that send nothing, never end their headers or body, or keep an idle connection', async () => {
    await start('0', 20_000);
    const login = 'POST /api/v0/auth/login HTTP/1.1\r\nHost: auth\r\n';
    const sent = [
      '',
      login,
      `${login}Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{"`,
      'GET /health/live HTTP/1.1\r\nHost: auth\r\n\r\n',
    ];
    const sockets: Socket[] = [];
    for (const bytes of sent) {
      const socket = connect(service.port, '127.0.0.1').on('error', () => undefined);
      sockets.push(socket);
      await once(socket, 'connect');
      socket.write(bytes);
    }
    // The bytes have arrived once a later request is answered.
    await validate(callers[0]!);
    expect(await service.stop()).toBe(0);
    for (const socket of sockets) socket.destroy();
  }, 240_000);
});
