import { once } from 'node:events';
import { createServer } from 'node:net';
import { Client } from 'pg';
import { eventually } from '../../tools/eventually.js';
import { FirstRunFolder } from '../support/first-run-folder.js';
import { fromRoot } from '../support/from-root.js';
import { endAll, ServiceProcess } from '../support/service-process.js';
import { SECRET_KEY, VARIABLES, withSettings } from '../support/settings.js';
import { createTestDatabase, useTestDatabase } from '../support/test-database.js';
import type { Variables } from '../../src/foundation/config/environment.js';
import { claimPort } from '../../tools/claim-port.js';
import { LOCKS } from '../../src/foundation/database/locks.js';
import { TcpProxy } from '../../tools/tcp-proxy.js';
import { createMigrationOptions } from '../../src/foundation/database/migrate.js';

const START_MS = 90_000;

const SCENARIO_MS = 240_000;

describe('src/main.ts', () => {
  afterEach(endAll);

  it.each(['1', '2'])(
    'starts the service without the bundle, with WORKERS=%s',
    async (WORKERS) => {
      const database = await createTestDatabase();
      const variables = { ...VARIABLES, DATABASE_URL: database.url, WORKERS };
      const service = await ServiceProcess.spawn(variables, undefined, fromRoot('dist/src/main.js'));
      await service.ready();
      expect(await service.stop()).toBe(0);
      await database.drop();
    },
    SCENARIO_MS,
  );
});

describe('port 0', () => {
  const folder = new FirstRunFolder(0o755);
  afterEach(endAll);
  afterAll(() => folder.remove());

  it.each(['1', '2'])(
    'is any free port, and the start prints the real ones, with WORKERS=%s',
    async (WORKERS) => {
      const database = await createTestDatabase();
      const any = { PORT: '0', INTERNAL_PORT: '0', METRICS_PORT: '0', WORKERS };
      // A first start: only there the text for developers is printed.
      const variables = {
        ...VARIABLES,
        NODE_ENV: 'development',
        DATABASE_URL: database.url,
        LOG_LEVEL: 'info',
        ...any,
      };
      const service = await ServiceProcess.spawn(variables, folder.path);
      await eventually('it is ready', () => service.hasExited || service.output.includes('is ready.'), START_MS);
      const find = (pattern: RegExp): string => pattern.exec(service.output)?.[1] ?? 'http://127.0.0.1:0';
      const printed = [
        /docs +(http:\/\/\S+)\/docs/,
        /internal +(http:\/\/\S+)\/internal\//,
        /metrics +(http:\/\/\S+)\/metrics/,
      ];
      await eventually('all is printed', () => service.hasExited || printed.every((line) => line.test(service.output)));
      const status = (url: string, path: string): Promise<number> => fetch(url + path).then((answer) => answer.status);
      const [url, internalUrl, metricsUrl] = printed.map(find) as [string, string, string];
      expect(await status(url, '/docs')).toBe(200);
      expect(await status(url, '/api/v0/admin/nodes')).toBe(404);
      expect(await status(internalUrl, '/api/v0/admin/nodes')).toBe(401);
      expect(await status(metricsUrl, '/metrics')).toBe(200);
      const ports = `"port":${new URL(url).port},"internal_port":${new URL(internalUrl).port}`;
      await eventually('the ports are logged', () => service.output.includes(ports));
      expect(await service.stop()).toBe(0);
      await database.drop();
    },
    SCENARIO_MS,
  );
});

/** A closed port: the service must exit before it connects. */
const DATABASE_URL = 'postgresql://user:hunter2-hunter3@127.0.0.1:1/auth';

describe('a start with an invalid configuration', () => {
  let folder: FirstRunFolder;

  beforeEach(() => {
    folder = new FirstRunFolder();
  });

  afterEach(async () => {
    await endAll();
    await folder.remove();
  });

  const refusal = async (variables: Variables): Promise<string> => {
    const service = await ServiceProcess.spawn(variables, folder.path);
    expect(await service.exited()).toBe(1);
    return service.output;
  };

  const expectNothingMade = (): void => {
    expect([folder.environmentFile, folder.hasCluster]).toEqual([undefined, false]);
  };

  it('names the missing variables in production, and creates no database and no secret', async () => {
    const output = await refusal({ NODE_ENV: 'production' });
    expect(output).toContain('SECRET_KEY');
    expect(output).toContain('DATABASE_URL');
    expectNothingMade();
  });

  it.each([
    { SECRET_KEY: 'hunter2-hunter3', ADMIN_API_KEY: 'placeholder-placeholder-placeholder' },
    { SECRET_KEY: 'changeme-changeme-changeme-changeme', ADMIN_API_KEY: 'hunter2-hunter3' },
  ])('names secrets that are short or placeholders, without printing them: %j', async (secrets) => {
    const output = await refusal({ NODE_ENV: 'production', DATABASE_URL, ...secrets });
    for (const [name, value] of Object.entries(secrets)) {
      expect(output).toContain(name);
      expect(output).not.toContain(value);
    }
    expect(output).not.toContain('hunter2');
    expectNothingMade();
  });

  it('names an invalid value in development too, before it creates a secret or a database', async () => {
    const output = await refusal({ ACCESS_TOKEN_EXPIRE_MINUTES: '1e9' });
    expect(output).toContain('ACCESS_TOKEN_EXPIRE_MINUTES');
    expect(folder.hasCluster).toBe(false);
  });

  it('reports that its port is in use, and how to choose another', async () => {
    const port = await claimPort();
    const squatter = createServer().listen(port, '127.0.0.1');
    await once(squatter, 'listening');
    const output = await refusal({ PORT: String(port) });
    squatter.close();
    expect(output).toContain(`Port ${port} is taken`);
    expect(output).toContain('PORT=');
    expect(output).not.toMatch(/^\s+at /m);
    expect(folder.hasCluster).toBe(false);
  });

  it('reports that the database refuses connections, without the password of the URL, and that MASTER_KEY is missing', async () => {
    const limited = { ...withSettings({ startTimeoutSeconds: 1 }), PORT: String(await claimPort()) };
    const output = await refusal({ NODE_ENV: 'production', SECRET_KEY, DATABASE_URL, ...limited });
    expect(output).toMatch(/DATABASE_URL/);
    expect(output).toContain('Set MASTER_KEY');
    expect(output).not.toContain('hunter2');
    expect(output).not.toMatch(/^\s+at /m);
  });
});

/** Long enough for a process to start on a busy machine. */
const LIMIT = { startTimeoutSeconds: 8 };

const WARNINGS = { ...VARIABLES, LOG_LEVEL: 'warn', ...withSettings(LIMIT) };

interface Obstacle {
  readonly name: string;
  readonly waitingFor: string;
  /** Puts it in the way of a start. @returns what takes it away again */
  readonly prepare: (proxy: TcpProxy, client: Client) => unknown;
  readonly variables?: Variables;
  /** Part of the output. */
  readonly says?: string;
  /** The statement reached the proxy, which dropped it. */
  readonly isSwallowed?: boolean;
}

const dropFrom = (bytes: string) => (proxy: TcpProxy) => proxy.blackHoleFrom(bytes);
const dropFirstConnection = dropFrom('application_name\0platform-auth\0');
const SLOW_CONNECT = withSettings({ ...LIMIT, databaseConnectTimeoutMs: 60_000 });

const OBSTACLES: readonly Obstacle[] = [
  {
    name: 'a database that does not respond',
    waitingFor: 'an answer of the database',
    prepare: (proxy) => proxy.blackHole(true),
  },
  {
    name: 'a database that refuses connections',
    waitingFor: 'a database that can be used',
    prepare: (proxy) => proxy.close(),
    says: 'ECONNREFUSED',
  },
  ...['CREATE TABLE users', 'COMMIT'].map((statement) => ({
    name: `a migration whose packets are dropped from ${statement} on`,
    waitingFor: 'the migrations of the schema',
    prepare: dropFrom(statement),
    isSwallowed: true,
  })),
  {
    name: 'the first connection of the pool',
    waitingFor: 'the connections to the database',
    prepare: dropFirstConnection,
    variables: SLOW_CONNECT,
  },
  {
    name: 'the first connection of the pools of two workers',
    waitingFor: 'the workers',
    prepare: dropFirstConnection,
    variables: { ...SLOW_CONNECT, WORKERS: '2' },
  },
  {
    name: 'the migration lock',
    waitingFor: 'the lock of the migrations, which another process holds or held',
    prepare: (_, client) => client.query('SELECT pg_advisory_lock($1)', [LOCKS.migrations]),
  },
  {
    name: 'a migration that is blocked by the transaction of another client',
    waitingFor: 'the migrations of the schema',
    prepare: (_, client) => client.query('BEGIN; CREATE TABLE app_credentials ()'),
  },
];

describe('a start that waits', () => {
  const outcomes = new Map<Obstacle, { code: number | null; output: string; swallowedBytes: number }>();

  const run = async (obstacle: Obstacle): Promise<void> => {
    const database = await createTestDatabase({ isEmpty: true });
    const proxy = await TcpProxy.before(database.url);
    const client = new Client({ connectionString: database.url });
    await client.connect();
    await obstacle.prepare(proxy, client);
    const variables = { ...WARNINGS, DATABASE_URL: proxy.url, ...obstacle.variables };
    const service = await ServiceProcess.spawn(variables);
    const code = await service.exited();
    outcomes.set(obstacle, { code, output: service.output, swallowedBytes: proxy.swallowedBytes });
    await client.end();
    await proxy.close();
    await database.drop();
  };

  // Each waits for the whole limit, so two of them wait at the same time. More starts at once would be too slow for the limit.
  beforeAll(async () => {
    for (let index = 0; index < OBSTACLES.length; index += 2)
      await Promise.all(OBSTACLES.slice(index, index + 2).map(run));
  }, SCENARIO_MS);
  afterAll(endAll);

  it.each(OBSTACLES)('for $name logs that, and exits with 1', (obstacle) => {
    const { code, output, swallowedBytes } = outcomes.get(obstacle)!;
    expect(code).toBe(1);
    for (const text of ['"start_waits"', `waiting for ${obstacle.waitingFor}`, obstacle.says ?? ''])
      expect(output).toContain(text);
    if (obstacle.isSwallowed) expect(swallowedBytes).toBeGreaterThan(0);
  });

  it('for a migration that PostgreSQL executes does not time out', async () => {
    const database = await createTestDatabase({ isEmpty: true });
    await database.query(`CREATE FUNCTION delay() RETURNS event_trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_sleep(0.06); END $$`);
    await database.query('CREATE EVENT TRIGGER slow ON ddl_command_end EXECUTE FUNCTION delay()');
    const service = await ServiceProcess.start({ ...WARNINGS, DATABASE_URL: database.url });
    expect(service.output).toContain('the migrations of the schema');
    expect(await service.stop()).toBe(0);
    await database.drop();
  });
});

const REPLICAS = 8;

describe('eight replicas that start together on an empty database', () => {
  const database = useTestDatabase({ isEmpty: true });

  it('migrate once, accept each other’s nodes, and stop', async () => {
    const variables = { ...VARIABLES, DATABASE_URL: database.url, DATABASE_POOL_SIZE: '2' };
    const replicas = await Promise.all(Array.from({ length: REPLICAS }, () => ServiceProcess.spawn(variables)));
    await Promise.all(replicas.map((replica) => replica.ready()));
    const all = createMigrationOptions(database.url).migrations as unknown[];
    expect(await database.query('SELECT name FROM migrations')).toHaveLength(all.length);
    const { headers } = await replicas[0]!.issueNode();
    const validations = replicas.map(({ url }) => fetch(`${url}/internal/validate-node`, { method: 'POST', headers }));
    expect((await Promise.all(validations)).map(({ status }) => status)).toEqual(Array(REPLICAS).fill(200));
    const exits = await Promise.all(replicas.map((replica) => replica.stop()));
    expect(exits).toEqual(Array(REPLICAS).fill(0));
  }, 240_000);
});
