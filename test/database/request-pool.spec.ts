import { RequestPool } from '../../src/database/request-pool.js';
import { eventually } from '../../tools/eventually.js';
import { TcpProxy } from '../../tools/tcp-proxy.js';
import { createTestDatabase, type TestDatabase } from '../support/test-database.js';

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
