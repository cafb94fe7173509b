import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../../../tools/eventually.js';
import { MAIL_VARIABLES, MailServer } from '../../support/mail-server.js';
import { ServiceProcess } from '../../support/service-process.js';
import { ADMIN_KEY, PASSWORD, VARIABLES } from '../../support/settings.js';
import { createTestDatabase, type TestDatabase } from '../../support/test-database.js';

const EMAIL = 'alice@example.org';

describe('the service in production, with a mail server', () => {
  let folder: string;
  let database: TestDatabase;
  let server: MailServer;
  const path = (name: string): string => join(folder, name);

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'mail-'));
    // A certificate that is its own authority.
    const words = 'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost';
    const files = ['-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', path('key.pem'), '-out', path('ca.pem')];
    execFileSync('openssl', [...words.split(' '), ...files], { stdio: 'pipe' });
    database = await createTestDatabase();
    server = new MailServer({
      secure: true,
      key: readFileSync(path('key.pem')),
      cert: readFileSync(path('ca.pem')),
      authOptional: false,
      onAuth: ({ username, password }, _session, callback) =>
        username === 'user' && password === 'canary-password'
          ? callback(null, { user: 'any' })
          : callback(Object.assign(new Error('no'), { responseCode: 535 })),
    });
    await server.start();
    writeFileSync(path('mail-url'), `smtps://user:canary-password@127.0.0.1:${server.port}\n`);
  });

  afterAll(async () => {
    await server.stop();
    await database.drop();
    rmSync(folder, { recursive: true });
  });

  const toVariables = (): Record<string, string | undefined> => ({
    ...VARIABLES,
    ...MAIL_VARIABLES,
    NODE_ENV: 'production',
    HOST: '127.0.0.1',
    LOG_LEVEL: 'info',
    DATABASE_URL: database.url,
    MAIL_URL_FILE: path('mail-url'),
    NODE_EXTRA_CA_CERTS: path('ca.pem'),
  });

  const post = async (service: ServiceProcess, route: string, body: object): Promise<number> => {
    const headers = { 'Content-Type': 'application/json', 'X-Admin-Key': ADMIN_KEY };
    return (await fetch(service.url + route, { method: 'POST', headers, body: JSON.stringify(body) })).status;
  };

  it('sends over TLS what was requested before it was killed, and logs neither token nor password', async () => {
    const first = await ServiceProcess.start(toVariables());
    expect(await post(first, '/api/v0/admin/users', { email: EMAIL, password: PASSWORD })).toBe(201);
    await server.stop();
    expect(await post(first, '/api/v0/auth/password-reset', { email: EMAIL })).toBe(202);
    first.kill('SIGKILL');
    await eventually('it is dead', () => first.hasExited);
    await server.start();
    await database.query('UPDATE mail_requests SET next_attempt_at = now()');
    const second = await ServiceProcess.start(toVariables());
    await eventually('the mail arrives', () => server.to(EMAIL).length > 0);
    const { token } = server.to(EMAIL).at(-1)!;
    const reset = { token, new_password: 'another perfectly fine passphrase' };
    expect(await post(second, '/api/v0/auth/password-reset/confirm', reset)).toBe(204);
    expect(await second.stop()).toBe(0);
    for (const secret of [token!, 'canary-password', EMAIL]) expect(first.output + second.output).not.toContain(secret);
  });

  it('does not start with a folder of texts that lacks one, and names it', async () => {
    const service = await ServiceProcess.spawn({ ...toVariables(), MAIL_TEMPLATES_DIR: folder });
    expect(await service.exited()).toBe(1);
    expect(service.output).toContain('MAIL_TEMPLATES_DIR: password-reset.txt is missing or cannot be read');
    expect(service.output).not.toContain('canary-password');
  });
});
