import { DataSource } from 'typeorm';
import { BEGIN_VERIFICATION } from '../../src/audit/seals/seal-verifier.js';
import { FEED_SESSION } from '../../src/revocation/revocation-feed.js';
import { withClient } from '../../tools/postgres.js';
import { TestApp } from '../support/test-app.js';
import { createTestDatabase, type TestDatabase } from '../support/test-database.js';

const FOREIGN = { datestyle: 'SQL, DMY', default_transaction_isolation: 'serializable', jit: 'on' };

describe('a database whose sessions have other settings', () => {
  let database: TestDatabase;

  beforeAll(async () => {
    database = await createTestDatabase();
    const [row] = await database.query<{ name: string }>('SELECT current_database() AS name');
    for (const [name, value] of Object.entries(FOREIGN))
      await database.query(`ALTER DATABASE ${row?.name} SET ${name} = '${value}'`);
  });

  afterAll(() => database.drop());

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
