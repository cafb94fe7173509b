import { RequestPool } from '../../src/database/request-pool.js';
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
    const timeouts = { connectionTimeoutMillis: 300, answerTimeoutMs: 200 };
    pool = new RequestPool({ connectionString: proxy.url, max: POOL_SIZE, ...timeouts });
  });

  afterAll(async () => {
    await pool.end();
    await proxy.close();
    await database.drop();
  });

  const queries = (count: number) => Promise.allSettled(Array.from({ length: count }, () => pool.query('SELECT 1')));
  const outcomes = async (count: number) => new Set((await queries(count)).map(({ status }) => status));

  it('rejects every waiting request, and goes on, when the connections in place of stalled ones time out too', async () => {
    expect(await outcomes(POOL_SIZE)).toEqual(new Set(['fulfilled']));
    proxy.blackHole(true);
    expect(await outcomes(5 * POOL_SIZE)).toEqual(new Set(['rejected']));
    expect(await outcomes(5 * POOL_SIZE)).toEqual(new Set(['rejected']));
    proxy.blackHole(false);
    expect(await outcomes(5 * POOL_SIZE)).toEqual(new Set(['fulfilled']));
  });
});
