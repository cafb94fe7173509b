import { once } from 'node:events';
import { withAdvisoryLock } from '../../src/database/advisory-lock.js';
import { isDatabaseFailure } from '../../src/database/database-failure.js';
import { endLockHolder } from '../support/lock-holder.js';
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

  it('tells the work, and makes the call fail as an outage', async () => {
    const error = await withLock(async (lost) => {
      await endLockHolder(database, LOCK);
      if (!lost.aborted) await once(lost, 'abort');
      lost.throwIfAborted();
    });
    expect(error).toMatchObject({ message: expect.stringContaining('the lock with it') });
    expect(isDatabaseFailure(error)).toBe(true);
    expect(await withLock(() => Promise.resolve('next'))).toBe('next');
  });

  it('makes the call fail also when the work came to its end', async () => {
    const error = await withLock(async (lost) => {
      await endLockHolder(database, LOCK);
      if (!lost.aborted) await once(lost, 'abort');
      return 'done';
    });
    expect(error).toMatchObject({ message: expect.stringContaining('the lock with it') });
  });

  it('leaves it to the work to say what came of it', async () => {
    const error = await withLock(async () => {
      await endLockHolder(database, LOCK);
      throw new TypeError('half done');
    });
    expect(error).toMatchObject({ message: 'half done' });
  });
});
