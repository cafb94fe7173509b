import { once } from 'node:events';
import { withAdvisoryLock } from '../../src/database/locks.js';
import { isDatabaseFailure } from '../../src/database/database-failure.js';
import { endLockHolder } from '../support/lock-holder.js';
import { TcpProxy } from '../../tools/tcp-proxy.js';
import { createTestDatabase, type TestDatabase } from '../support/test-database.js';

const LOCK = 4_712;

describe('an advisory lock whose connection is lost', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database.drop());

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
