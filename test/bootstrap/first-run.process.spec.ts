import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { eventually } from '../../tools/eventually.js';
import { FirstRunFolder, isAlive } from '../support/first-run-folder.js';
import { endAll, ServiceProcess } from '../support/service-process.js';
import { PASSWORD, withSettings } from '../support/settings.js';
import { EmbeddedPostgres } from '../../src/foundation/embedded-postgres/embedded-postgres.js';
import { IS_NIGHTLY } from '../../tools/nightly.js';
import { makePassword, withClient } from '../../tools/postgres.js';

const VARIABLES = { BCRYPT_COST: '4', ...withSettings({}) };

const SCENARIO_MS = 240_000;

describe.each([
  ['a folder that every user may enter', 0o755],
  ['a folder that only its owner may enter', 0o700],
])('a first start in %s', (_name, mode) => {
  let folder: FirstRunFolder;

  beforeEach(() => {
    folder = new FirstRunFolder(mode);
  });

  afterEach(async () => {
    await endAll();
    await folder.remove();
  });

  const start = () => ServiceProcess.start(VARIABLES, folder.path);

  /** The service may answer a request before its output has arrived here. */
  const printed = (service: ServiceProcess, text: string): Promise<void> =>
    eventually(`it prints ${text}`, () => service.output.includes(text));

  const post = async (service: ServiceProcess, path: 'register' | 'login'): Promise<Response> =>
    fetch(`${service.url}/api/v0/auth/${path}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ email: 'alice@example.org', password: PASSWORD }),
    });

  const call = async (...request: Parameters<typeof post>): Promise<number> => (await post(...request)).status;

  const logIn = async (service: ServiceProcess): Promise<string> => {
    const { access_token } = (await (await post(service, 'login')).json()) as { access_token: string };
    return access_token;
  };

  const expectNothingLeft = (serverPid: number): void => {
    expect(folder.serverPid).toBeUndefined();
    expect(isAlive(serverPid)).toBe(false);
  };

  it(
    'creates its secrets once, keeps its data between starts until it is deleted, and leaves no process running',
    async () => {
      const first = await start();
      const made = folder.environmentFile;
      expect(made?.mode).toBe(0o600);
      expect(made?.text).toMatch(/^SECRET_KEY=\S{32,}$/m);
      expect(made?.text).toMatch(/^ADMIN_API_KEY=\S{32,}$/m);
      expect(made?.text).toMatch(/^AUDIT_SEAL_KEY=\S{32,}$/m);
      await printed(first, 'Creating a PostgreSQL database');
      await printed(first, folder.cluster);
      await printed(first, `${first.url}/docs`);
      for (const secret of made!.text.match(/(?<==)\S{32,}/g)!) expect(first.output).not.toContain(secret);
      expect(await call(first, 'register')).toBe(201);
      const serverOfFirst = folder.serverPid!;
      expect(await first.stop()).toBe(0);
      expectNothingLeft(serverOfFirst);
      const second = await start();
      expect(folder.environmentFile).toEqual(made);
      expect(await call(second, 'login')).toBe(200);
      expect(second.output).not.toContain('Creating a PostgreSQL database');
      const serverOfSecond = folder.serverPid!;
      expect(await second.stop()).toBe(0);
      expectNothingLeft(serverOfSecond);
      expect(second.output).not.toMatch(/env_file_flawed|master_key_shared/);
      folder.deleteData();
      folder.replaceEnvironmentFile(made!.text.replace(/^MASTER_KEY=/m, 'MASTER_KEY '), 0o644);
      const anew = await start();
      await printed(anew, 'MASTER_KEY is not set');
      await printed(anew, 'Type: chmod 600 .env');
      await printed(anew, '.env sets nothing in line 3');
      expect(await call(anew, 'login')).toBe(401);
      expect(await call(anew, 'register')).toBe(201);
      expect(await anew.stop()).toBe(0);
    },
    SCENARIO_MS,
  );

  // What follows does not depend on where the data is.
  if (mode === 0o700 && !IS_NIGHTLY) return;

  it(
    'shares the database and the secrets with processes that start at the same time',
    async () => {
      const all = await Promise.all(Array.from({ length: 3 }, start));
      const server = folder.serverPid!;
      expect(await call(all[0]!, 'register')).toBe(201);
      const headers = { Authorization: `Bearer ${await logIn(all[0]!)}` };
      for (const { url } of all) expect((await fetch(`${url}/api/v0/users/me`, { headers })).status).toBe(200);
      expect(folder.environmentFile!.text.match(/(?<==)\S{32,}$/gm)).toHaveLength(4);
      for (const service of all) expect(await service.stop()).toBe(0);
      expectNothingLeft(server);
    },
    SCENARIO_MS,
  );

  it(
    'recovers every acknowledged write after a power cut, uses the server that a kill -9 left running, and stops it at the end',
    async () => {
      const cut = await start();
      expect(await call(cut, 'register')).toBe(201);
      cut.kill('SIGKILL');
      await cut.exited();
      await folder.cutPower();
      const killed = await start();
      expect(await call(killed, 'login')).toBe(200);
      const server = folder.serverPid!;
      killed.kill('SIGKILL');
      await killed.exited();
      expect(isAlive(server)).toBe(true);
      const next = await start();
      expect(folder.serverPid).toBe(server);
      expect(await call(next, 'login')).toBe(200);
      expect(await next.stop()).toBe(0);
      expectNothingLeft(server);
    },
    SCENARIO_MS,
  );

  it(
    'shares its server with a second process, and the last process stops it',
    async () => {
      const first = await start();
      expect(await call(first, 'register')).toBe(201);
      const refused = await ServiceProcess.spawn({ ...VARIABLES, PORT: String(first.port) }, folder.path);
      expect(await refused.exited()).toBe(1);
      expect(await first.status('/health')).toBe(200);
      const second = await start();
      const server = folder.serverPid!;
      expect(await first.stop()).toBe(0);
      expect(await call(second, 'login')).toBe(200);
      expect(await second.stop()).toBe(0);
      expectNothingLeft(server);
    },
    SCENARIO_MS,
  );
});

describe('the embedded server of a folder', () => {
  let folder: FirstRunFolder;

  // Once, because making a cluster takes seconds. Each test leaves its server stopped.
  beforeAll(() => {
    folder = new FirstRunFolder();
  });

  afterAll(() => folder.remove());

  const start = () =>
    EmbeddedPostgres.start({ folder: join(realpathSync(folder.path), '.data/postgres'), makePassword });
  const startTogether = () => Promise.all([start(), start(), start()]);

  it('is shared by all that start it at the same time, and stopped when they stop at the same time', async () => {
    const all = await startTogether();
    expect(new Set(all.map((server) => server.url())).size).toBe(1);
    expect(folder.serverPid).toBeGreaterThan(0);
    await Promise.all(all.map((server) => server.stop()));
    expect(folder.serverPid).toBeUndefined();
    const [again] = await startTogether();
    await again.stop();
    expect(folder.serverPid).toBeUndefined();
  });

  it('is stopped although a connection of an ended process lasts a moment longer', async () => {
    const server = await start();
    let stopped: Promise<void> | undefined;
    await withClient(server.url(), async (client) => {
      stopped = server.stop();
      await client.query('SELECT pg_sleep(0.3)');
    });
    await stopped;
    expect(folder.serverPid).toBeUndefined();
  });

  it('runs on while another process uses it', async () => {
    const server = await start();
    await withClient(server.url(), async (client) => {
      await server.stop();
      expect((await client.query('SELECT 1')).rows).toHaveLength(1);
    });
    await server.stop();
    expect(folder.serverPid).toBeUndefined();
  });
});
