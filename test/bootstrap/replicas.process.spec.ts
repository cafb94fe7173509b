import { createMigrationOptions } from '../../src/database/database-options.js';
import { endAll, ServiceProcess } from '../support/service-process.js';
import { ADMIN_KEY, VARIABLES } from '../support/settings.js';
import { createTestDatabase, type TestDatabase } from '../support/test-database.js';

const REPLICAS = 8;

describe('eight replicas that start together on an empty database', () => {
  let database: TestDatabase;

  beforeAll(async () => {
    database = await createTestDatabase({ isEmpty: true });
  });

  afterAll(async () => {
    await endAll();
    await database.drop();
  });

  it('migrate once, accept each other’s nodes, and stop', async () => {
    const variables = { ...VARIABLES, DATABASE_URL: database.url, DATABASE_POOL_SIZE: '2' };
    const replicas = await Promise.all(Array.from({ length: REPLICAS }, () => ServiceProcess.spawn(variables)));
    await Promise.all(replicas.map((replica) => replica.ready()));
    const all = createMigrationOptions(database.url).migrations as unknown[];
    expect(await database.query('SELECT name FROM migrations')).toHaveLength(all.length);
    const registered = await fetch(`${replicas[0]!.url}/api/v0/admin/nodes`, {
      method: 'POST',
      headers: { 'X-Admin-Key': ADMIN_KEY, 'Content-Type': 'application/json' },
      body: JSON.stringify({ household_id: '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10', room: 'hall', name: 'lamp' }),
    });
    const node = (await registered.json()) as { node_id: string; api_key: string };
    const headers = { 'X-API-Key': `${node.node_id}:${node.api_key}` };
    const validations = replicas.map(({ url }) => fetch(`${url}/internal/validate-node`, { method: 'POST', headers }));
    expect((await Promise.all(validations)).map(({ status }) => status)).toEqual(Array(REPLICAS).fill(200));
    const exits = await Promise.all(replicas.map((replica) => replica.stop()));
    expect(exits).toEqual(Array(REPLICAS).fill(0));
  }, 240_000);
});
