import { Client } from 'pg';
import { toFailure } from '../../src/cli/failures.js';
import { readSchemaState } from '../../src/database/migrate.js';
import { claimPort } from '../../tools/claim-port.js';
import { Cli } from '../support/cli.js';
import { createTestDatabase } from '../support/test-database.js';

const systemError = (code: string, more: object = {}): Error =>
  Object.assign(new Error(`${code}: raw`), { code, ...more });

describe('a failure', () => {
  it.each([
    [
      systemError('EROFS', { path: 'env/auth.env' }),
      'file_unusable',
      /^env\/auth\.env cannot be used: its file system is read-only\. .*run this again/,
    ],
    [systemError('ENOSPC'), 'file_unusable', /the disk is full/],
    [systemError('ECONNREFUSED', { syscall: 'connect' }), 'database_unreachable', /refused\. Start PostgreSQL/],
    [
      systemError('ENOENT', { syscall: 'connect', path: '/run/x' }),
      'database_unreachable',
      /socket .*Start PostgreSQL/,
    ],
    [new AggregateError([systemError('ECONNREFUSED'), systemError('ECONNREFUSED')]), 'database_unreachable', /refused/],
    [new Error('timeout expired'), 'database_unreachable', /did not answer in time/],
    [systemError('42501'), 'database_forbidden', /role that owns the tables/],
  ])('%s is reported as %s, with the next step', (error, code, message) => {
    expect(toFailure(error)).toEqual({ code, message: expect.stringMatching(message) });
  });

  it('of another kind is reported as unexpected', () => {
    expect(toFailure(new TypeError('x is undefined'))).toEqual({
      code: 'unexpected',
      message: 'Unexpected error: x is undefined',
    });
  });

  it('of a database that does not exist, or of its password, says what to correct', async () => {
    const database = await createTestDatabase({ isEmpty: true });
    const url = (change: (url: URL) => void): string => {
      const changed = new URL(database.url);
      change(changed);
      return changed.href;
    };
    const missing = await readSchemaState(url((it) => (it.pathname = '/missing'))).catch(toFailure);
    expect(missing).toMatchObject({ code: 'database_missing', message: expect.stringContaining('createdb') });
    const client = new Client({ connectionString: database.url });
    await client.connect();
    const old = await client.query('SELECT revoked_at FROM app_credentials').catch(toFailure);
    expect(old).toMatchObject({ code: 'schema_outdated', message: expect.stringContaining('platform-auth migrate') });
    await client.end();
    await database.drop();
  });
});

describe('--json', () => {
  let url = '';
  const cli = new Cli(() => url);

  beforeAll(async () => {
    url = `http://127.0.0.1:${await claimPort()}`;
  });

  afterAll(() => cli.remove());

  it.each<[string[], number, string, RegExp]>([
    [
      ['nodes', 'list'],
      1,
      'service_unreachable',
      /Connection to http:\/\/127\.0\.0\.1:\d+ refused\. Start the service/,
    ],
    [['nodes', 'list', '--household', 'x'], 2, 'usage', /It must be a UUID/],
    [['nodes', 'register'], 2, 'usage', /required option '--household <uuid>'/],
    [['nodes'], 2, 'usage', /No command is named\. See --help\./],
    [['nonsense'], 2, 'usage', /unknown command 'nonsense'/],
    [['init', '--map', 'missing.yaml', '--env-dir', 'env'], 1, 'map_unusable', /missing\.yaml cannot be read: /],
    [['migrate'], 1, 'configuration_unusable', /DATABASE_URL is required[^]*docs\/operations\/embedded-database\.md$/],
    [['users', 'import', '/dev/null'], 1, 'configuration_unusable', /docs\/operations\/embedded-database\.md$/],
  ])('%j fails with one line of JSON on standard error', async (parameters, exitCode, code, message) => {
    const { code: exited, stdout, stderr } = await cli.run(...parameters, '--json');
    expect({ exited, stdout }).toEqual({ exited: exitCode, stdout: '' });
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect(JSON.parse(stderr)).toEqual({ code, message: expect.stringMatching(message) });
  });
});
