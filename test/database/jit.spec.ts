import { BEGIN } from '../../src/audit/verify-statements.js';
import { Database } from '../../src/database/database.js';
import { FEED_SESSION } from '../../src/keys/cache/revocation-feed.js';
import { withClient } from '../../tools/postgres.js';
import { useApp } from '../support/use-app.js';

const SHOW_JIT = `SELECT current_setting('jit') AS jit`;

describe('just-in-time compilation, which PostgreSQL has on', () => {
  const app = useApp();

  it('is off in the sessions of the pool', async () => {
    expect(await app.database.query(SHOW_JIT)).toEqual([{ jit: 'on' }]);
    expect(await app.nest.get(Database).row({ name: 'show_jit', text: SHOW_JIT }, [])).toEqual({ jit: 'off' });
  });

  it.each([
    ['the feed of changes', FEED_SESSION],
    ['the verification of the audit log', BEGIN],
  ])('is off in the session of %s', async (_whose, prepare) => {
    await withClient(app.database.url, async (client) => {
      await client.query(prepare);
      expect((await client.query(SHOW_JIT)).rows).toEqual([{ jit: 'off' }]);
    });
  });
});
