import { Client } from 'pg';
import { LOCKS } from '../../src/database/locks.js';
import { eventually } from '../../tools/eventually.js';
import { endLockHolder } from '../support/lock-holder.js';
import { OwnPlatform, SPECIFIED_PAIRS } from './own-platform.js';

const BARRIER = 4_713;

describe('platform-auth init that loses its advisory lock', () => {
  it('mints no more keys, says why, and the rerun completes', async () => {
    const platform = await OwnPlatform.create({ isEmpty: false });
    const { database } = platform;
    const barrier = new Client({ connectionString: database.url });
    await barrier.connect();
    await barrier.query('SELECT pg_advisory_lock($1)', [BARRIER]);
    await barrier.query(`
      CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM pg_advisory_lock(${BARRIER}); PERFORM pg_advisory_unlock(${BARRIER}); RETURN NEW; END $$;
      CREATE TRIGGER barrier BEFORE INSERT ON app_credentials FOR EACH ROW EXECUTE FUNCTION wait()`);
    const outcome = platform.init().catch((error: unknown) => error);
    const waiting = `
      SELECT 1 FROM pg_locks JOIN pg_database ON pg_database.oid = database AND datname = current_database()
      WHERE locktype = 'advisory' AND NOT granted AND objid = ${BARRIER}`;
    await eventually('the first key is being made', async () => (await database.query(waiting)).length > 0);
    await endLockHolder(database, LOCKS.init);
    await barrier.end();
    expect(await outcome).toMatchObject({ message: expect.stringContaining('the lock with it') });
    expect((await platform.livePairs()).length).toBeLessThanOrEqual(1);
    await platform.init();
    expect(await platform.livePairs()).toEqual(SPECIFIED_PAIRS);
    await platform.remove();
  });
});
