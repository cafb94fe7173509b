import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { EmbeddedPostgres, locate } from '../../../src/foundation/embedded-postgres/embedded-postgres.js';
import { endAll, ServiceProcess } from '../../support/service-process.js';
import { VARIABLES } from '../../support/settings.js';

describe('DATABASE_URL with a Unix socket', () => {
  const parent = mkdtempSync(join(tmpdir(), 'pa-socket-'));
  const sockets = join(parent, 'sockets');
  let server: EmbeddedPostgres;
  let url: URL;

  beforeAll(async () => {
    chmodSync(parent, 0o755);
    mkdirSync(sockets);
    const folder = join(parent, 'postgres');
    const { user } = locate(folder);
    if (user) chownSync(sockets, user.uid, user.gid);
    const settings = { unix_socket_directories: sockets };
    server = await EmbeddedPostgres.start({ folder, makePassword: () => 'of-a-test', settings });
    url = new URL(server.url());
  });

  afterAll(async () => {
    await endAll();
    await server.remove();
    rmSync(parent, { recursive: true });
  });

  it.each([
    [
      'as a parameter, beside a host',
      () => `postgresql://${login()}@unused.example:${url.port}/postgres?host=${sockets}`,
    ],
    [
      'as a parameter, without a host',
      () => `postgresql:///postgres?host=${sockets}&port=${url.port}&user=${url.username}&password=${url.password}`,
    ],
    ['as the host', () => `postgresql://${login()}@${encodeURIComponent(sockets)}:${url.port}/postgres`],
  ])('is used: the folder %s', async (_where, connectionString) => {
    const client = new Client({ connectionString: connectionString() });
    await client.connect();
    const { rows } = await client.query('SELECT inet_server_addr() AS address');
    await client.end();
    expect(rows).toEqual([{ address: null }]);
    const service = await ServiceProcess.start({ ...VARIABLES, DATABASE_URL: connectionString() });
    expect(await service.status('/health')).toBe(200);
    expect(await service.stop()).toBe(0);
  });

  function login(): string {
    return `${url.username}:${url.password}`;
  }
});
