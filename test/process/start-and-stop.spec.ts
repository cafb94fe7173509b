import { randomUUID } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort, ServiceProcess } from '../support/service-process.js';
import { PASSWORD, SECRET_KEY, VARIABLES } from '../support/test-app.js';
import { createTestDatabase, type TestDatabase } from '../support/test-database.js';

describe('the process', () => {
  let database: TestDatabase;
  let folder: string;

  beforeAll(async () => {
    database = await createTestDatabase();
  });

  afterAll(async () => {
    await database.drop();
  });

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'platform-auth-cwd-'));
  });

  afterEach(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  it('refuses by name to start in production with nothing set, and makes nothing up', async () => {
    const service = await ServiceProcess.spawn({ NODE_ENV: 'production' }, folder);
    expect(await service.exited()).toBe(1);
    expect(service.output).toContain('SECRET_KEY');
    expect(service.output).toContain('DATABASE_URL');
    expect([existsSync(join(folder, '.env')), existsSync(join(folder, '.data'))]).toEqual([false, false]);
  });

  it('refuses a short key by its name and never prints it', async () => {
    const secret = 'hunter2-hunter3';
    const variables = { NODE_ENV: 'production', DATABASE_URL: database.url, SECRET_KEY: secret };
    const service = await ServiceProcess.spawn(variables, folder);
    expect(await service.exited()).toBe(1);
    expect(service.output).toContain('SECRET_KEY');
    expect(service.output).not.toContain(secret);
  });

  it('says that its port is taken, and starts nothing', async () => {
    const port = await freePort();
    const squatter = createServer().listen(port, '127.0.0.1');
    await once(squatter, 'listening');
    const service = await ServiceProcess.spawn({ PORT: String(port) }, folder);
    expect(await service.exited()).toBe(1);
    expect(service.output).toContain(`Port ${port} is taken`);
    expect(existsSync(join(folder, '.data'))).toBe(false);
    squatter.close();
  });

  it('starts on a machine that has nothing, keeps its data over a stop and a kill -9, and leaves nothing running', async () => {
    const credentials = JSON.stringify({ email: `${randomUUID()}@example.org`, password: PASSWORD });
    const call = async (service: ServiceProcess, path: string): Promise<number> => {
      const headers = { 'Content-Type': 'application/json' };
      return (await fetch(`${service.url}/api/v0/auth/${path}`, { method: 'POST', headers, body: credentials })).status;
    };
    const variables = { BCRYPT_COST: '4' };
    const first = await (await ServiceProcess.spawn(variables, folder)).ready();
    expect(statSync(join(folder, '.env')).mode & 0o777).toBe(0o600);
    expect(first.output).toContain('/docs');
    expect(await call(first, 'register')).toBe(201);
    first.kill('SIGKILL');
    await first.exited();
    const second = await (await ServiceProcess.spawn(variables, folder)).ready();
    expect(await call(second, 'login')).toBe(200);
    expect(await second.stop()).toBe(0);
    const third = await (await ServiceProcess.spawn(variables, folder)).ready();
    expect(await call(third, 'login')).toBe(200);
    expect(await third.stop()).toBe(0);
    expect(existsSync(join(folder, '.data/postgres/cluster/PG_VERSION'))).toBe(true);
    expect(existsSync(join(folder, '.data/postgres/cluster/postmaster.pid'))).toBe(false);
  }, 60_000);

  it('migrates once when eight replicas start together on an empty database', async () => {
    const empty = await createTestDatabase();
    const variables = { ...VARIABLES, DATABASE_URL: empty.url, HASH_THREADS: '1', DATABASE_POOL_SIZE: '2' };
    const replicas = await Promise.all(Array.from({ length: 8 }, () => ServiceProcess.spawn(variables, folder)));
    await Promise.all(replicas.map((replica) => replica.ready()));
    expect(await empty.query('SELECT count(*)::int AS count FROM migrations')).toEqual([{ count: 1 }]);
    expect(await Promise.all(replicas.map((replica) => replica.stop()))).toEqual(Array(8).fill(0));
    await empty.drop();
  }, 60_000);

  it('drains on SIGTERM: unready first, then every request answered, then exit 0', async () => {
    const service = await ServiceProcess.spawn(
      {
        ...VARIABLES,
        NODE_ENV: 'production',
        HOST: '127.0.0.1',
        SECRET_KEY,
        DATABASE_URL: database.url,
        SHUTDOWN_DELAY_MS: '500',
      },
      folder,
    );
    await service.ready();
    const statuses: number[] = [];
    const failures: unknown[] = [];
    let stopped = false;
    // A caller that turns elsewhere, as a load balancer does, once the service says that it is not ready.
    const caller = async (): Promise<void> => {
      while (!stopped) {
        try {
          const answer = await fetch(`${service.url}/internal/validate-node`, {
            method: 'POST',
            headers: { 'X-API-Key': 'a:b' },
          });
          statuses.push(answer.status);
        } catch (error) {
          failures.push(error);
        }
      }
    };
    const callers = Array.from({ length: 20 }, caller);
    while (statuses.length < 100) await new Promise(setImmediate);
    service.kill('SIGTERM');
    while ((await fetch(`${service.url}/health`)).status !== 503);
    expect((await fetch(`${service.url}/health/live`)).status).toBe(200);
    stopped = true;
    await Promise.all(callers);
    expect(failures).toEqual([]);
    expect(new Set(statuses)).toEqual(new Set([401]));
    expect(await service.exited()).toBe(0);
  }, 60_000);
});
