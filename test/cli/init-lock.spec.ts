import { LOCKS } from '../../src/database/locks.js';
import { holdWrites } from '../support/barrier.js';
import { endLockHolder } from '../support/lock-holder.js';
import { OwnPlatform, SPECIFIED_PAIRS, useCommands } from './own-platform.js';

useCommands();

describe('platform-auth init that loses its advisory lock', () => {
  it('mints no more keys, says why, and the rerun completes', async () => {
    const platform = await OwnPlatform.create({ isEmpty: false });
    const { database } = platform;
    const barrier = await holdWrites(database, 'app_credentials');
    const outcome = platform.init().catch((error: unknown) => error);
    await barrier.reached();
    await endLockHolder(database, LOCKS.init);
    await barrier.release();
    expect(await outcome).toMatchObject({ message: expect.stringContaining('the lock with it') });
    expect((await platform.livePairs()).length).toBeLessThanOrEqual(1);
    await platform.init();
    expect(await platform.livePairs()).toEqual(SPECIFIED_PAIRS);
    await platform.remove();
  });
});
