import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { problems } from '../../src/common/problems.js';
import { eventually } from '../support/eventually.js';
import { expectProblem } from '../support/expect-problem.js';
import { PASSWORD, TestApp } from '../support/test-app.js';
import { countByStatus } from '../support/throttled.js';
import { freePort } from '../../src/embedded-postgres/free-port.js';

const LIMIT = 10;
const redisUrl = process.env.TEST_REDIS_URL;
const withRedis = redisUrl ? describe : describe.skip;

describe('a Redis that cannot be used', () => {
  let silent: Server;
  const sockets = new Set<Socket>();

  beforeAll(async () => {
    silent = createServer((socket) => sockets.add(socket)).listen(0, '127.0.0.1');
    await once(silent, 'listening');
  });

  afterAll(() => {
    for (const socket of sockets) socket.destroy();
    silent.close();
  });

  it.each([
    ['is not there', freePort],
    ['accepts and never answers', async () => Promise.resolve((silent.address() as AddressInfo).port)],
  ])('because it %s makes a login 503, and nothing else', async (_name, portOf) => {
    const app = await TestApp.start({ variables: { REDIS_URL: `redis://127.0.0.1:${await portOf()}` } });
    const email = 'alice@example.org';
    await app.admin.post('/users', { email, password: PASSWORD }).expect(201);
    const answers = await Promise.all(Array.from({ length: 20 }, () => app.login(email)));
    for (const answer of answers) expectProblem(answer, problems.unavailable);
    await app.validateNode((await app.node()).header).expect(200);
    await app.get('/health/live').expect(200);
    await app.stop();
  });
});

withRedis('counters in Redis (skipped unless TEST_REDIS_URL names one that may be written to)', () => {
  it('are exact over two replicas, and know the owner', async () => {
    const variables = {
      REDIS_URL: redisUrl!,
      TRUST_PROXY: '1',
      LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: `${LIMIT}/900`,
      LOGIN_LIMIT_PER_ACCOUNT: `${LIMIT}/900`,
      REFRESH_LIMIT_PER_ADDRESS: `${LIMIT}/2`,
    };
    const one = await TestApp.start({ variables });
    const two = await TestApp.start({ variables, database: one.database });
    const alice = await one.user();
    await eventually('Redis is there', async () => (await one.login(alice.email)).status === 200);
    await eventually('Redis is there', async () => (await two.login(alice.email)).status === 200);
    const from = (address: string, password: string, times: number) =>
      Promise.all(
        Array.from({ length: times }, (_, index) =>
          (index % 2 ? one : two).login(alice.email, password).set('X-Forwarded-For', address),
        ),
      );
    expect(countByStatus(await from('192.0.2.1', PASSWORD, 50))).toEqual({ 200: 50 });
    expect(countByStatus(await from('192.0.2.2', 'wrong', 1_000))).toEqual({ 401: LIMIT, 429: 1_000 - LIMIT });
    expect(countByStatus(await from('192.0.2.1', PASSWORD, 50))).toEqual({ 200: 50 });
    expect(countByStatus(await from('192.0.2.3', PASSWORD, 1))).toEqual({ 429: 1 });
    const refreshes = await Promise.all(Array.from({ length: 50 }, () => one.refresh('unknown')));
    expect(countByStatus(refreshes)).toEqual({ 401: LIMIT, 429: 50 - LIMIT });
    await eventually('the window is over', async () => (await one.refresh('unknown')).status === 401);
    expect(await one.database.query('SELECT * FROM throttle_counters')).toEqual([]);
    await two.stop();
    await one.stop();
  });
});
