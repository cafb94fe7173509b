import { once } from 'node:events';
import type { Test as SupertestRequest } from 'supertest';
import { DataSource, type EntityManager } from 'typeorm';
import { LOCKS, withAdvisoryLock } from '../../../src/foundation/database/locks.js';
import { isDatabaseFailure } from '../../../src/foundation/database/database-failure.js';
import { endLockHolder } from '../../support/row-lock.js';
import { TcpProxy } from '../../../tools/tcp-proxy.js';
import { createTestDatabase, useTestDatabase, type TestDatabase } from '../../support/test-database.js';
import { eventually } from '../../../tools/eventually.js';
import { useApp } from '../../support/use-app.js';
import { RequestPool } from '../../../src/foundation/database/request-pool.js';
import { BEGIN_VERIFICATION } from '../../../src/domain/audit/seals/seal-verifier.js';
import { FEED_SESSION } from '../../../src/domain/revocation/revocation-feed.js';
import { withClient } from '../../../tools/postgres.js';
import { TestApp } from '../../support/test-app.js';
import { Database } from '../../../src/foundation/database/database.js';
import { PASSWORD } from '../../support/settings.js';
import { Callers, SHORT_WAITS } from '../../support/outage.js';

const LOCK = 4_712;

describe('a connection that PostgreSQL ends', () => {
  const database = useTestDatabase();

  it('fails the caller that has just got it, and not the process', async () => {
    const timeouts = { answerTimeoutMs: 10_000 };
    const pool = new RequestPool({ connectionString: database.url, max: 1, ...timeouts });
    const { rows } = await pool.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    await withClient(database.url, async (client) => {
      const answered = pool.query('SELECT 1');
      const failed = pool.connect().then((connection) =>
        connection
          .query('SELECT 2')
          .catch((error: unknown) => error)
          .finally(() => connection.release(true)),
      );
      const ended = client.query('SELECT pg_sleep(0.1), pg_terminate_backend($1)', [rows[0]?.pid]);
      // The answer and the end of the connection are read at once, because the event loop stands still meanwhile.
      await new Promise((resolve) => setImmediate(resolve));
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400);
      await Promise.all([answered, ended]);
      expect(isDatabaseFailure(await failed)).toBe(true);
    });
    await pool.end();
  });
});

describe('an advisory lock whose connection is lost', () => {
  const database = useTestDatabase();

  const withLock = <Result>(work: (lost: AbortSignal) => Promise<Result>) =>
    withAdvisoryLock(database.url, LOCK, work).catch((error: unknown) => error);

  it('aborts the work, and fails the call as a database outage', async () => {
    const error = await withLock(async (lost) => {
      await endLockHolder(database, LOCK);
      if (!lost.aborted) await once(lost, 'abort');
      lost.throwIfAborted();
    });
    expect(error).toMatchObject({ message: expect.stringContaining('the lock with it') });
    expect(isDatabaseFailure(error)).toBe(true);
    expect(await withLock(() => Promise.resolve('next'))).toBe('next');
  });

  it('fails the call also when the work had finished', async () => {
    const error = await withLock(async (lost) => {
      await endLockHolder(database, LOCK);
      if (!lost.aborted) await once(lost, 'abort');
      return 'done';
    });
    expect(error).toMatchObject({ message: expect.stringContaining('the lock with it') });
  });

  it('is released for the next holder when packets are dropped without a close', async () => {
    const proxy = await TcpProxy.before(database.url);
    const heartbeat = { intervalMs: 50, timeoutMs: 100, maxSilenceMs: 500 };
    const work = async (lost: AbortSignal): Promise<void> => {
      proxy.blackHole(true);
      if (!lost.aborted) await once(lost, 'abort');
    };
    const error: unknown = await withAdvisoryLock(proxy.url, LOCK, work, undefined, heartbeat).catch((e: unknown) => e);
    expect(isDatabaseFailure(error)).toBe(true);
    // PostgreSQL still sees the connection of the first holder, which the proxy keeps open.
    expect(await withLock(() => Promise.resolve('next'))).toBe('next');
    await proxy.close();
  });

  it('lets the work report its own outcome', async () => {
    const error = await withLock(async () => {
      await endLockHolder(database, LOCK);
      throw new TypeError('half done');
    });
    expect(error).toMatchObject({ message: 'half done' });
  });
});

/** ErrorResponse of the protocol, as every backend sends it when PostgreSQL ends the others after the crash of one. */
function encodeFatalError(code: string): Buffer {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0Mterminating connection\0\0`);
  const head = Buffer.from('E\0\0\0\0');
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
}

describe('a connection that is terminated', () => {
  const app = useApp({ isBehindProxy: true, ...SHORT_WAITS });
  let callers: Callers;

  beforeAll(async () => {
    callers = await Callers.of(app);
  });

  it.each<[string, (transaction: EntityManager) => Promise<unknown>]>([
    ['statement of the connection', ({ queryRunner }) => queryRunner!.query('SELECT 1')],
    ['statement of the transaction', (transaction) => transaction.query('SELECT 1')],
    ['repository', (transaction) => transaction.count('Node')],
    ['savepoint', (transaction) => transaction.transaction(() => Promise.resolve())],
    ['commit', () => Promise.resolve()],
  ])('between two statements of a transaction counts as a database outage (%s)', async (_, next) => {
    const transaction = app.nest.get(DataSource).transaction(async (manager) => {
      const [row] = await manager.query<{ pid: number }[]>('SELECT pg_backend_pid() AS pid');
      await app.database.query(`SELECT pg_terminate_backend(${row!.pid})`);
      await eventually('the connection is given up', () => manager.queryRunner!.isReleased);
      await next(manager);
    });
    const error: unknown = await transaction.then(
      () => 'committed',
      (reason: unknown) => reason,
    );
    expect(isDatabaseFailure(error)).toBe(true);
  });

  it.each<[string, (callers: Callers, name: string) => SupertestRequest]>([
    [
      'the registration of a node',
      ({ app, node }, name) =>
        app.admin.post('/nodes', { household_id: node.householdId, room: 'hall', name }).set('Idempotency-Key', name),
    ],
    ['the change of a node', ({ app, node }, name) => app.admin.patch(`/nodes/${node.nodeId}`, { targets: [name] })],
    ['the rotation of a key', ({ app, node }) => app.admin.post(`/nodes/${node.nodeId}/rotate`)],
    ['a login', ({ app, alice }) => app.login(alice.email)],
    ['a refresh', ({ app, tokens }) => app.refresh(tokens.refresh_token)],
    [
      'the registration of a user',
      ({ app }, name) => app.admin.post('/users', { email: `${name}@example.org`, password: PASSWORD }),
    ],
  ])('together with any answer of PostgreSQL causes 503 at most: %s', async (_, call) => {
    const statuses: number[] = [];
    for (let answers = 1; answers <= 6; answers += 1) {
      const code = answers % 2 === 0 ? '57P01' : '57P02';
      app.proxy.cutAfterAnswers(answers, encodeFatalError(code));
      statuses.push((await call(callers, `name-${answers}`)).status);
    }
    expect(statuses.filter((status) => status >= 500 && status !== 503)).toEqual([]);
  });
});

describe('advisory locks', () => {
  it('have distinct numbers, so that different jobs do not block each other', () => {
    const numbers = Object.values(LOCKS);
    expect(new Set(numbers).size).toBe(numbers.length);
  });
});

const POOL_SIZE = 2;

describe('the pool of connections', () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  let pool: RequestPool;

  beforeAll(async () => {
    database = await createTestDatabase();
    proxy = await TcpProxy.before(database.url);
    const timeouts = { connectionTimeoutMillis: 1_000, answerTimeoutMs: 800 };
    pool = new RequestPool({ connectionString: proxy.url, max: POOL_SIZE, ...timeouts });
  });

  afterAll(async () => {
    await pool.end();
    await proxy.close();
    await database.drop();
  });

  const queries = (count: number) => Promise.allSettled(Array.from({ length: count }, () => pool.query('SELECT 1')));
  const outcomes = async (count: number) => new Set((await queries(count)).map(({ status }) => status));

  /** A busy machine may be slower than the short timeouts. */
  const allAnswered = (count: number) =>
    eventually('all are answered', async () => !(await outcomes(count)).has('rejected'));

  it('rejects every waiting request, and goes on, when the connections in place of stalled ones time out too', async () => {
    await allAnswered(POOL_SIZE);
    proxy.blackHole(true);
    expect(await outcomes(5 * POOL_SIZE)).toEqual(new Set(['rejected']));
    expect(await outcomes(5 * POOL_SIZE)).toEqual(new Set(['rejected']));
    proxy.blackHole(false);
    await allAnswered(5 * POOL_SIZE);
  });
});

const FOREIGN = { datestyle: 'SQL, DMY', default_transaction_isolation: 'serializable', jit: 'on' };

describe('a database whose sessions have other settings', () => {
  const database = useTestDatabase();

  beforeAll(async () => {
    const [row] = await database.query<{ name: string }>('SELECT current_database() AS name');
    for (const [name, value] of Object.entries(FOREIGN))
      await database.query(`ALTER DATABASE ${row?.name} SET ${name} = '${value}'`);
  });

  it('is used with the settings that the service relies on', async () => {
    const app = await TestApp.start({ database });
    try {
      const { nodeId } = await app.node();
      const { body } = (await app.admin.get(`/nodes/${nodeId}`).expect(200)) as { body: { created_at: string } };
      expect(Date.parse(body.created_at)).toBeGreaterThan(0);
      const names = Object.keys(FOREIGN).map((name) => `current_setting('${name}') AS ${name}`);
      const [settings] = await app.nest.get(DataSource).query<object[]>(`SELECT ${names.join(', ')}`);
      expect(settings).toEqual({ datestyle: 'ISO, DMY', default_transaction_isolation: 'read committed', jit: 'off' });
    } finally {
      await app.stop();
    }
  });

  it.each([
    ['the feed of changes', FEED_SESSION],
    ['the verification of the audit log', BEGIN_VERIFICATION],
  ])('compiles no statement of %s', async (_whose, prepare) => {
    await withClient(database.url, async (client) => {
      await client.query(prepare);
      expect((await client.query(`SELECT current_setting('jit') AS jit`)).rows).toEqual([{ jit: 'off' }]);
    });
  });
});

describe('an unreachable database', () => {
  const app = useApp({ isBehindProxy: true, ...SHORT_WAITS });
  let callers: Callers;

  beforeAll(async () => {
    callers = await Callers.of(app);
  });

  it('causes 503 on every route while it refuses connections, and the service recovers by itself', async () => {
    await app.proxy.close();
    await callers.expectNoVerdicts();
    await app.proxy.open();
    await callers.expectRecovered();
  });

  it('causes 503 on every route while packets are dropped, and the service recovers by itself', async () => {
    app.proxy.blackHole(true);
    await callers.expectNoVerdicts();
    // New connections are accepted, and get no response either.
    await callers.expectNoVerdicts();
    app.proxy.blackHole(false);
    await callers.expectRecovered();
  });

  it('leaks no pool connection when a firewall drops established connections', async () => {
    const database = app.nest.get(Database);
    const readAtOnce = () => Promise.all(Array.from({ length: 20 }, () => app.admin.get('/nodes')));
    await readAtOnce();
    app.proxy.forgetConnections();
    expect((await readAtOnce()).map(({ status }) => status)).toContain(503);
    await eventually('none is waited for', () => database.pool.stalled === 0);
    expect(database.pool.limit).toBe(10);
    await callers.expectRecovered();
  });

  it('causes 503 for requests that were waiting when the connection was cut', async () => {
    app.proxy.blackHole(true);
    const asked = callers.askEverything();
    await app.proxy.close();
    expect(new Set((await asked).map(({ status }) => status))).toEqual(new Set([503]));
    app.proxy.blackHole(false);
    await app.proxy.open();
    await callers.expectRecovered();
  });
});
