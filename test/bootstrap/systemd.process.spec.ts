import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { eventually } from '../../tools/eventually.js';
import { endAll, ServiceProcess } from '../support/service-process.js';
import { VARIABLES } from '../support/settings.js';
import { useTestDatabase } from '../support/test-database.js';

const START_MS = 90_000;
const SCENARIO_MS = 240_000;

describe('under systemd', () => {
  const database = useTestDatabase();
  let folder: string;
  let socket: string;

  // A program in the place of systemd-notify appends what it is told to the file that stands for the socket.
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'platform-auth-systemd-'));
    socket = join(folder, 'told');
    const program = join(folder, 'systemd-notify');
    writeFileSync(program, '#!/bin/sh\necho "$@" >> "$NOTIFY_SOCKET"\n');
    chmodSync(program, 0o755);
  });
  afterEach(async () => {
    await endAll();
    rmSync(folder, { recursive: true });
  });

  const told = (): string => (existsSync(socket) ? readFileSync(socket, 'utf8') : '');

  const start = (variables: Record<string, string>): Promise<ServiceProcess> =>
    ServiceProcess.start({ ...VARIABLES, DATABASE_URL: database.url, LOG_LEVEL: 'info', ...variables });

  it.each(['1', '2'])(
    'reports that it is ready, and later that it stops, once each, with WORKERS=%s',
    async (WORKERS) => {
      const PATH = `${folder}${delimiter}${process.env.PATH}`;
      const service = await start({ WORKERS, PATH, NOTIFY_SOCKET: socket });
      await eventually('it has reported', () => told() === 'READY=1\n', START_MS);
      service.kill('SIGTERM');
      await eventually('it has reported', () => told() === 'READY=1\nSTOPPING=1\n');
      expect(await service.exited()).toBe(0);
      expect(told()).toBe('READY=1\nSTOPPING=1\n');
    },
    SCENARIO_MS,
  );

  it('reports nothing without a socket', async () => {
    const service = await start({ PATH: `${folder}${delimiter}${process.env.PATH}` });
    expect(await service.stop()).toBe(0);
    expect(service.output).not.toContain('systemd');
    expect(existsSync(join(folder, 'told'))).toBe(false);
  });

  it('logs why it could not report, and serves', async () => {
    const service = await start({ PATH: folder, NOTIFY_SOCKET: join(folder, 'missing', 'told') });
    await eventually('it is logged', () => service.output.includes('systemd_not_notified'));
    expect(await service.status('/health')).toBe(200);
    expect(await service.stop()).toBe(0);
  });
});
