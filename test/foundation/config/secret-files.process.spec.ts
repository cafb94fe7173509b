import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Cli } from '../../support/cli.js';
import type { Variables } from '../../../src/foundation/config/environment.js';
import { eventually } from '../../../tools/eventually.js';
import { endAll, ServiceProcess } from '../../support/service-process.js';
import { ADMIN_KEY, MASTER_KEY, SECRET_KEY, VARIABLES, withSettings } from '../../support/settings.js';
import { createTestDatabase, type TestDatabase } from '../../support/test-database.js';

describe('in production with its secrets in files', () => {
  const folder = mkdtempSync(join(tmpdir(), 'platform-auth-secret-files-'));
  const empty = join(folder, 'empty');
  const unset = { SECRET_KEY: undefined, MASTER_KEY: undefined, ADMIN_API_KEY: undefined };
  let database: TestDatabase;
  let secrets: Record<string, string>;

  beforeAll(async () => {
    database = await createTestDatabase({ isEmpty: true });
    const contents = {
      SECRET_KEY,
      MASTER_KEY,
      ADMIN_API_KEY: ADMIN_KEY,
      AUDIT_SEAL_KEY: `${SECRET_KEY}-seal`,
      DATABASE_URL: database.url,
    };
    secrets = Object.fromEntries(
      Object.entries(contents).map(([name, value]) => {
        writeFileSync(join(folder, name), `${value}\n`);
        return [`${name}_FILE`, join(folder, name)];
      }),
    );
    writeFileSync(empty, '');
  });

  afterAll(async () => {
    await endAll();
    await database.drop();
    rmSync(folder, { recursive: true });
  });

  const variables = (more: Variables) => ({ ...VARIABLES, ...unset, NODE_ENV: 'production', ...secrets, ...more });

  it.each(['1', '2'])('the service starts with WORKERS=%s, and knows the admin key of the file', async (workers) => {
    const sealing = { ...withSettings({ auditSealIntervalSeconds: 1 }), SHUTDOWN_DELAY_MS: '0' };
    const ignored = { SESSION_MAX_AGE_DAY: '4', LOG_LEVEL: 'info' };
    const service = await ServiceProcess.start(variables({ WORKERS: workers, ...sealing, ...ignored }));
    const said = service.lines.filter((line) => /variables_ignored|setting_is_weak|mail_is_off/.test(line));
    expect(said).toEqual([
      expect.stringContaining('SESSION_MAX_AGE_DAY is not known'),
      expect.stringContaining('BCRYPT_COST: each hash costs an attacker little: set at least 10'),
      expect.stringContaining('ADMIN_SET_PASSWORDS: operators may choose'),
      expect.stringContaining('MAIL_URL is not set'),
    ]);
    const list = (key: string) => fetch(`${service.url}/api/v0/admin/nodes`, { headers: { 'X-Admin-Key': key } });
    expect((await list(ADMIN_KEY)).status).toBe(200);
    expect((await list(`${ADMIN_KEY}x`)).status).toBe(401);
    const isSealed = async (): Promise<boolean> => (await database.query('SELECT 1 FROM audit_seals')).length > 0;
    await eventually('the audit log is sealed', isSealed);
    expect(await service.stop()).toBe(0);
    expect(service.output).not.toContain(ADMIN_KEY);
  });

  it('the commands read the same variables, each only the files that it needs', async () => {
    const cli = new Cli('http://127.0.0.1:1', { NODE_ENV: 'production', ...secrets });
    const unreadable = { SECRET_KEY_FILE: empty, LOGGING_APP_KEY_FILE: empty };
    expect(await cli.with({ ...unreadable, ADMIN_API_KEY_FILE: empty }).ok('migrate')).toContain(
      'schema is up to date',
    );
    expect(await cli.with(unreadable).json('audit', 'verify')).toMatchObject({
      findings: [],
      seals: expect.any(Number),
    });
    expect(await cli.with({ AUDIT_SEAL_KEY_FILE: empty }).fails('audit', 'verify')).toContain('AUDIT_SEAL_KEY_FILE');
    expect(await cli.with({ DATABASE_URL_FILE: empty }).fails('migrate')).toContain('DATABASE_URL_FILE');
    expect(await cli.with({ ADMIN_API_KEY_FILE: empty }).fails('nodes', 'list')).toContain('ADMIN_API_KEY_FILE');
    expect(await cli.with(unreadable).fails('nodes', 'list')).not.toContain('_FILE');
  });
});
