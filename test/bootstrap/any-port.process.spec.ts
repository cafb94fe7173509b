import { eventually } from '../../tools/eventually.js';
import { FirstRunFolder } from '../support/first-run-folder.js';
import { endAll, ServiceProcess } from '../support/service-process.js';
import { VARIABLES } from '../support/settings.js';
import { createTestDatabase } from '../support/test-database.js';

const START_MS = 90_000;
const SCENARIO_MS = 240_000;

describe('port 0', () => {
  const folder = new FirstRunFolder(0o755);
  afterEach(endAll);
  afterAll(() => folder.remove());

  it.each(['1', '2'])(
    'is any free port, and the start prints the real ones, with WORKERS=%s',
    async (WORKERS) => {
      const database = await createTestDatabase();
      const any = { PORT: '0', INTERNAL_PORT: '0', METRICS_PORT: '0', WORKERS };
      // A first start: only there the text for developers is printed.
      const variables = {
        ...VARIABLES,
        NODE_ENV: 'development',
        DATABASE_URL: database.url,
        LOG_LEVEL: 'info',
        ...any,
      };
      const service = await ServiceProcess.spawn(variables, folder.path);
      await eventually('it is ready', () => service.hasExited || service.output.includes('is ready.'), START_MS);
      const find = (pattern: RegExp): string => pattern.exec(service.output)?.[1] ?? 'http://127.0.0.1:0';
      const printed = [
        /docs +(http:\/\/\S+)\/docs/,
        /internal +(http:\/\/\S+)\/internal\//,
        /metrics +(http:\/\/\S+)\/metrics/,
      ];
      await eventually('all is printed', () => service.hasExited || printed.every((line) => line.test(service.output)));
      const status = (url: string, path: string): Promise<number> => fetch(url + path).then((answer) => answer.status);
      const [url, internalUrl, metricsUrl] = printed.map(find) as [string, string, string];
      expect(await status(url, '/docs')).toBe(200);
      expect(await status(url, '/api/v0/admin/nodes')).toBe(404);
      expect(await status(internalUrl, '/api/v0/admin/nodes')).toBe(401);
      expect(await status(metricsUrl, '/metrics')).toBe(200);
      const ports = `"port":${new URL(url).port},"internal_port":${new URL(internalUrl).port}`;
      await eventually('the ports are logged', () => service.output.includes(ports));
      expect(await service.stop()).toBe(0);
      await database.drop();
    },
    SCENARIO_MS,
  );
});
