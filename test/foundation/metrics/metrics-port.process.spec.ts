import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { eventually } from '../../../tools/eventually.js';
import { Scrape } from '../../support/scrape.js';
import { claimPort } from '../../../tools/claim-port.js';
import { ServiceProcess } from '../../support/service-process.js';
import { VARIABLES, withSettings } from '../../support/settings.js';
import { createTestDatabase, type TestDatabase } from '../../support/test-database.js';

describe('METRICS_PORT', () => {
  let database: TestDatabase;
  let metricsPort: number;
  let variables: Record<string, string | undefined>;

  beforeEach(async () => {
    database = await createTestDatabase();
    metricsPort = await claimPort();
    variables = { ...VARIABLES, DATABASE_URL: database.url, METRICS_PORT: String(metricsPort) };
  });
  afterEach(() => database.drop());

  const isOpen = (host = '127.0.0.1'): Promise<boolean> =>
    fetch(`http://${host}:${metricsPort}/metrics`).then(
      ({ status }) => status === 200,
      () => false,
    );

  it('is open while the service runs and drains', async () => {
    const service = await ServiceProcess.start({
      ...variables,
      SHUTDOWN_DELAY_MS: '10000',
      ...withSettings({ shutdownDeadlineMs: 40_000 }),
    });
    const answer = await fetch(`http://127.0.0.1:${metricsPort}/metrics`);
    expect(new Scrape(await answer.text()).names).toContain('platform_auth_nodejs_version_info');
    service.kill('SIGTERM');
    await eventually('it drains', async () => (await service.status('/health')) === 503);
    expect(await isOpen()).toBe(true);
    expect(await service.exited()).toBe(0);
    expect(await isOpen()).toBe(false);
  });

  it.each(['1', '2'])('listens on METRICS_HOST, apart from the requests (WORKERS=%s)', async (WORKERS) => {
    const service = await ServiceProcess.start({ ...variables, METRICS_HOST: '127.0.0.2', WORKERS });
    expect(await isOpen()).toBe(false);
    await eventually('the workers are scraped', () => isOpen('127.0.0.2'));
    expect(await service.stop()).toBe(0);
  });

  it('does not delay the shutdown by a scraper that keeps its connection or never ends its request', async () => {
    const service = await ServiceProcess.start(variables);
    const slow = connect(metricsPort, '127.0.0.1').on('error', () => undefined);
    await once(slow, 'connect');
    slow.write('GET /metrics HTTP/1.1\r\nHost: x\r\n');
    expect(await isOpen()).toBe(true);
    expect(await service.stop()).toBe(0);
    slow.destroy();
  });

  it('is reported, and the service exits, when it is in use', async () => {
    const other = createServer().listen(metricsPort, '127.0.0.1');
    await once(other, 'listening');
    const service = await ServiceProcess.spawn(variables);
    expect(await service.exited()).toBe(1);
    const words = `Port ${metricsPort} is taken: choose another METRICS_PORT.\n`;
    await eventually('it says why', () => service.output === words);
    other.close();
    await once(other, 'close');
  });
});
