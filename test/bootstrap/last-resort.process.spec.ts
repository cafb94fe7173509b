import { eventually } from '../../tools/eventually.js';
import { ServiceProcess } from '../support/service-process.js';
import { VARIABLES } from '../support/settings.js';
import { useTestDatabase } from '../support/test-database.js';

/** The level `error` of pino. */
const ERROR = 50;
const SECRET = 'alice@example.org';

/** A module that fails at SIGUSR2, loaded before the service by Node.js itself. */
const failing = (statement: string): string =>
  `--import data:text/javascript,${encodeURIComponent(`process.on('SIGUSR2',()=>{${statement}})`)}`;

describe('the process of the service', () => {
  const database = useTestDatabase();
  const start = async (options = {}) =>
    ServiceProcess.start({ ...VARIABLES, DATABASE_URL: database.url, LOG_LEVEL: 'warn', ...options });

  it.each([
    ['an exception', 'uncaughtException', `throw new TypeError('${SECRET}')`],
    ['a rejection', 'unhandledRejection', `void Promise.reject(new TypeError('${SECRET}'))`],
  ])('logs %s that no code handled as one line without its message, and exits with 1', async (_name, reason, code) => {
    const service = await start({ NODE_OPTIONS: failing(code) });
    service.kill('SIGUSR2');
    expect(await service.exited()).toBe(1);
    const lines = service.lines.map((line) => JSON.parse(line) as { msg: string });
    // A start on a busy machine may report that it waits.
    const failures = lines.filter(({ msg }) => msg !== 'start_waits');
    const error = { name: 'TypeError', stack: expect.stringContaining('    at ') as string };
    expect(failures).toMatchObject([{ level: ERROR, msg: 'process_failed', reason, error }]);
    expect(service.output).not.toContain(SECRET);
  });

  it('opens no debugger at SIGUSR1', async () => {
    const service = await start();
    service.kill('SIGUSR1');
    await eventually('it has noticed the signal', () => service.output.includes('signal_ignored'));
    expect(service.output).not.toMatch(/debugger/i);
    expect(await service.stop()).toBe(0);
  });
});
