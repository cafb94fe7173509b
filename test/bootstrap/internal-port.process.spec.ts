import { once } from 'node:events';
import { createServer } from 'node:net';
import { claimPort } from '../../tools/claim-port.js';
import { Caller } from '../support/caller.js';
import { eventually } from '../../tools/eventually.js';
import { holdTable } from '../support/row-lock.js';
import { endAll, ServiceProcess } from '../support/service-process.js';
import { VARIABLES } from '../support/settings.js';
import { useTestDatabase } from '../support/test-database.js';

describe('the process with INTERNAL_PORT', () => {
  const database = useTestDatabase();
  let internalPort: number;
  let callers: Caller[] = [];

  beforeAll(async () => {
    internalPort = await claimPort();
  });

  afterEach(async () => {
    callers.forEach((caller) => caller.hangUp());
    await endAll();
  });

  const start = (variables: Record<string, string> = {}): Promise<ServiceProcess> => {
    const own = { DATABASE_URL: database.url, INTERNAL_PORT: String(internalPort) };
    return ServiceProcess.start({ ...VARIABLES, ...own, LOG_LEVEL: 'info', REVOCATION_LEASE_MS: '0', ...variables });
  };

  const callersOf = (url: string): Caller[] => {
    callers = Array.from({ length: 8 }, () => new Caller(url));
    return callers;
  };

  it.each(['1', '2'])('serves validations on that port only, with WORKERS=%s, and exits with 0', async (workers) => {
    const service = await start({ WORKERS: workers });
    const { headers } = await service.issueNode(internalPort);
    const internal = callersOf(`http://127.0.0.1:${internalPort}`);
    const validate = (caller: Caller) => caller.call('/internal/validate-node', { headers });
    expect(new Set(await Promise.all(internal.map(validate)))).toEqual(new Set([200]));
    internal.forEach((caller) => caller.hangUp());
    expect(new Set(await Promise.all(callersOf(service.url).map(validate)))).toEqual(new Set([404]));
    const find = () => service.lines.find((text) => text.includes('"listening"'));
    await eventually('it is logged', () => find() !== undefined);
    expect(JSON.parse(find()!)).toMatchObject({ port: service.port, internal_port: internalPort });
    expect(await service.stop()).toBe(0);
  });

  it('answers open requests on the internal port when it stops', async () => {
    const service = await start();
    const { headers } = await service.issueNode(internalPort);
    const internal = callersOf(`http://127.0.0.1:${internalPort}`);
    const validate = (caller: Caller) => caller.call('/internal/validate-node', { headers });
    await Promise.all(internal.map(validate));
    const table = await holdTable(database, 'nodes');
    const answers = Promise.all(internal.map(validate));
    await table.waiting(1);
    // Concurrent validations share a statement. A response to a later request shows that all have arrived.
    expect((await fetch(`http://127.0.0.1:${internalPort}/health/live`)).status).toBe(200);
    service.kill('SIGTERM');
    await eventually('it no longer listens', async () => (await service.status('/health/live')) === undefined);
    await table.release();
    expect(new Set(await answers)).toEqual(new Set([200]));
    expect(await service.exited()).toBe(0);
  });

  it('exits and names the variable when the port is in use', async () => {
    const other = createServer().listen(internalPort, '127.0.0.1');
    await once(other, 'listening');
    const variables = { ...VARIABLES, DATABASE_URL: database.url, INTERNAL_PORT: String(internalPort) };
    const service = await ServiceProcess.spawn(variables);
    expect(await service.exited()).toBe(1);
    const words = `Port ${internalPort} is taken: choose another INTERNAL_PORT.\n`;
    await eventually('it says why', () => service.output === words);
    other.close();
    await once(other, 'close');
  });
});
