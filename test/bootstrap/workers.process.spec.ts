import { createMigrationOptions } from '../../src/foundation/database/migrate.js';
import { Caller } from '../support/caller.js';
import type { Variables } from '../../src/foundation/config/environment.js';
import { eventually } from '../../tools/eventually.js';
import { isAlive } from '../support/first-run-folder.js';
import { Scrape } from '../support/scrape.js';
import { claimPort } from '../../tools/claim-port.js';
import { TcpProxy } from '../../tools/tcp-proxy.js';
import { endAll, ServiceProcess } from '../support/service-process.js';
import { ADMIN_KEY, VARIABLES, withSettings } from '../support/settings.js';
import { useTestDatabase } from '../support/test-database.js';

const CALLERS = 16;
/** Each worker is a process that starts, one after the other where there is one processor. */
const START_MS = 110_000;
const ALL_200 = Array<number>(CALLERS).fill(200);
const LIVE = { route: '/health/live', method: 'GET', status: '200', door: 'none' };

describe('several workers on one port', () => {
  const database = useTestDatabase({ isEmpty: true });
  let service: ServiceProcess;
  let metricsPort: number;
  let callers: Caller[];

  afterEach(() => callers.forEach((caller) => caller.hangUp()));

  beforeEach(() => {
    callers = Array.from({ length: CALLERS }, () => new Caller(service.url));
  });

  const spawn = async (workers: string, variables: Variables = {}): Promise<void> => {
    metricsPort = await claimPort();
    const own = { DATABASE_URL: database.url, METRICS_PORT: String(metricsPort), WORKERS: workers };
    service = await ServiceProcess.spawn({ ...VARIABLES, ...own, ...variables });
  };

  const start = async (workers: number, variables?: Variables): Promise<void> => {
    await spawn(String(workers), variables);
    await eventually('all workers are up', async () => service.hasExited || (await areUp(workers)), START_MS);
  };

  const scrape = async (): Promise<Scrape> =>
    new Scrape(await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text());

  const areUp = async (workers: number, restarts = 0): Promise<boolean> => {
    const seen = await scrape().catch(() => undefined);
    return seen?.value('workers') === workers && seen.value('worker_restarts_total') === restarts;
  };

  const isLive = (caller: Caller): Promise<number> => caller.call('/health/live', { method: 'GET' });

  const countedLive = async (): Promise<number | undefined> => (await scrape()).value('http_requests_total', LIVE);

  const validate = (caller: Caller, headers: Record<string, string>): Promise<number> =>
    caller.call('/internal/validate-node', { headers });

  describe('four of them, on an empty database', () => {
    beforeAll(() => start(4), START_MS);
    afterAll(endAll);

    it('migrate once, and all refuse a key after one has answered its revocation', async () => {
      const all = createMigrationOptions(database.url).migrations as unknown[];
      expect(await database.query('SELECT name FROM migrations')).toHaveLength(all.length);
      const { id, headers } = await service.issueNode();
      expect(await Promise.all(callers.map((caller) => validate(caller, headers)))).toEqual(ALL_200);
      const revoked = await fetch(`${service.url}/api/v0/admin/nodes/${id}`, {
        method: 'DELETE',
        headers: { 'X-Admin-Key': ADMIN_KEY },
      });
      expect(revoked.status).toBe(204);
      const after = await Promise.all(callers.map((caller) => validate(caller, headers)));
      expect(new Set(after)).toEqual(new Set([401]));
    });

    it('do not run migrations when they are replaced', async () => {
      const names = await database.query<{ name: string }>('SELECT name FROM migrations');
      // A second migration would fail, because the tables exist.
      await database.query('DELETE FROM migrations');
      process.kill(service.children[0]!, 'SIGKILL');
      await eventually('another is up', () => areUp(4, 1));
      expect(await database.query('SELECT name FROM migrations')).toEqual([]);
      for (const { name } of names) {
        const insert = 'INSERT INTO migrations (timestamp, name) VALUES ($1, $2)';
        await database.query(insert, [/\d+$/.exec(name)![0], name]);
      }
    });

    it('exit when the primary is killed', async () => {
      const workers = service.children;
      expect(workers).toHaveLength(4);
      service.kill('SIGKILL');
      await service.exited();
      await eventually('all are gone', () => !workers.some(isAlive));
      expect(await service.status('/health/live')).toBeUndefined();
    });
  });

  describe('two of them, with faults', () => {
    beforeAll(() => start(2, { LOG_LEVEL: 'warn', ...withSettings({ shutdownDeadlineMs: 500 }) }), START_MS);
    afterAll(endAll);

    it('replace a killed worker while the other serves requests', async () => {
      const [victim, other] = service.children;
      expect(await Promise.all(callers.map(isLive))).toEqual(ALL_200);
      process.kill(victim!, 'SIGKILL');
      await eventually('it is gone', () => !service.children.includes(victim!));
      // Callers that were connected to the killed worker have to connect again.
      const answers = await Promise.allSettled(callers.map(isLive));
      const answered = answers.filter(({ status }) => status === 'fulfilled').length;
      expect(answered).toBeGreaterThan(0);
      await eventually('another is up', () => areUp(2, 1));
      expect(service.children).toContain(other);
      expect(await Promise.all(callers.map(isLive))).toEqual(ALL_200);
      const lines = service.output.split('\n').filter((line) => line.includes('worker_replaced'));
      const told = { level: 40, service: 'platform-auth', msg: 'worker_replaced' };
      expect(lines.map((line) => JSON.parse(line) as object)).toEqual([
        { ...told, time: expect.any(String) as string, worker_pid: victim, signal: 'SIGKILL', delay_ms: 0 },
      ]);
    });

    it('sum up the metrics of all workers', async () => {
      const before = (await countedLive())!;
      expect(await Promise.all(callers.map(isLive))).toEqual(ALL_200);
      await eventually('all are counted', async () => (await countedLive()) === before + CALLERS);
    });

    it('stop within the deadline when a worker is paused', async () => {
      const paused = service.children[0]!;
      process.kill(paused, 'SIGSTOP');
      // One new connection may have been assigned to it already.
      let answered = 0;
      const count = (): unknown => (answered += 1);
      for (const caller of callers) isLive(caller).then(count, () => undefined);
      await eventually('all others are answered', () => answered >= CALLERS - 1);
      expect(await service.stop()).toBe(1);
      await eventually('the paused one is gone', () => !isAlive(paused));
    });
  });

  describe('two of them, without a database', () => {
    let proxy: TcpProxy;

    beforeAll(async () => {
      proxy = await TcpProxy.before(database.url);
      await start(2, { DATABASE_URL: proxy.url });
    }, START_MS);
    afterAll(async () => {
      await endAll();
      await proxy.close();
    });

    it('still show their metrics while one of them waits for the database', async () => {
      await proxy.close();
      process.kill(service.children[0]!, 'SIGKILL');
      await eventually('the other one is shown alone', () => areUp(1, 1));
      expect((await scrape()).value('database_up')).toBe(0);
      await proxy.open();
      await eventually('both are up', () => areUp(2, 1));
    });
  });

  describe('two of them', () => {
    beforeAll(
      () => start(2, { SHUTDOWN_DELAY_MS: '10000', ...withSettings({ shutdownDeadlineMs: 40_000 }) }),
      START_MS,
    );

    it('answer 200 until they stop listening when all processes get SIGTERM, and the primary exits with 0', async () => {
      const workers = service.children;
      const { headers } = await service.issueNode();
      const answers: number[] = [];
      let isReady = true;
      // Behind a load balancer, a caller uses another replica once this one is not ready.
      const callOn = async (caller: Caller): Promise<void> => {
        while (isReady) answers.push(await validate(caller, headers));
      };
      const calling = Promise.all(callers.map(callOn));
      await eventually('all callers are at it', () => answers.length > 10 * CALLERS);
      for (const pid of [service.pid, ...workers]) process.kill(pid, 'SIGTERM');
      await eventually('it is unready', async () => (await service.status('/health')) === 503);
      expect(await areUp(2)).toBe(true);
      isReady = false;
      await calling;
      expect(new Set(answers)).toEqual(new Set([200]));
      expect(await service.exited()).toBe(0);
      expect(workers.filter(isAlive)).toEqual([]);
    });
  });

  it('are named when WORKERS is invalid', async () => {
    await spawn('0');
    expect(await service.exited()).toBe(1);
    expect(service.output).toContain('WORKERS must be auto or a whole number from 1 to 128');
  });
});
