import { chmodSync, rmSync, symlinkSync } from 'node:fs';
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { ADMIN_KEY } from '../support/settings.js';
import { TestApp } from '../support/test-app.js';
import { TestClock } from '../support/test-clock.js';
import { OwnPlatform, useCommands } from './own-platform.js';

useCommands();

describe('platform-auth doctor', () => {
  let platform: OwnPlatform;
  let app: TestApp;
  let url: string;

  beforeEach(async () => {
    platform = await OwnPlatform.create({ isEmpty: false });
    await platform.init();
    set('auth', 'ADMIN_API_KEY', ADMIN_KEY);
    app = await TestApp.start({ database: platform.database, clock: platform.clock });
    url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
  });

  afterEach(async () => {
    await app.stop();
    await platform.remove();
  });

  const set = (service: string, name: string, value: string) =>
    platform.edit(service, (text) => text.replace(new RegExp(`^${name}=.*`, 'm'), `${name}=${value}`));
  const ofOcr = `WHERE caller = 'ocr'`;

  it('reports nothing on a healthy platform', async () => {
    expect(await platform.diagnose(url)).toEqual([]);
  });

  it.each<[string, () => unknown, object[]]>([
    [
      'a file that others may read',
      () => chmodSync(platform.path('mcp'), 0o640),
      [{ severity: 'broken', where: 'mcp.env', what: expect.stringMatching(/mode 0640/) }],
    ],
    [
      'a file that is missing',
      () => rmSync(platform.path('logging')),
      [
        {
          severity: 'broken',
          where: 'logging.env',
          what: 'The file is missing.',
          do: expect.stringMatching(/^Is --env-dir right\?/),
        },
      ],
    ],
    [
      'a symbolic link in the place of a file',
      () => {
        rmSync(platform.path('logging'));
        symlinkSync('/dev/null', platform.path('logging'));
      },
      [{ severity: 'broken', where: 'logging.env', what: expect.stringMatching(/symbolic link/) }],
    ],
    [
      'a placeholder in the place of a secret',
      () => set('settings', 'ADMIN_API_KEY', 'changeme-changeme-changeme-changeme'),
      [{ severity: 'broken', where: 'settings.env', what: expect.stringMatching(/ADMIN_API_KEY looks like a placeh/) }],
    ],
    [
      'a secret that is too short',
      () => set('settings', 'ADMIN_API_KEY', 'k3yOfTooFewBytes'),
      [{ severity: 'broken', where: 'settings.env', what: expect.stringMatching(/ADMIN_API_KEY must be at least 32/) }],
    ],
    [
      'another SECRET_KEY where it must be equal',
      () => set('mcp', 'SECRET_KEY', 'another-Zr9tWx4yVb6nMk2jHg8fDs3aQp5oLi7u'),
      [{ severity: 'broken', where: 'mcp.env', what: 'SECRET_KEY is not that of auth.env.' }],
    ],
    [
      'another ADMIN_API_KEY than that of the running service',
      () => set('auth', 'ADMIN_API_KEY', 'another-Zr9tWx4yVb6nMk2jHg8fDs3aQp5oLi7u'),
      [
        {
          severity: 'broken',
          where: 'auth.env: ADMIN_API_KEY',
          what: expect.stringMatching(/service refuses this/),
          do: expect.stringMatching(/^Restart auth with this file, .* an exported one wins over the file\. Or write /),
        },
      ],
    ],
    [
      'a SECRET_KEY_PREVIOUS that was left behind',
      () => platform.edit('mcp', (text) => `${text}SECRET_KEY_PREVIOUS=another-Zr9tWx4yVb6nMk2jHg8fDs3aQp5oLi7u\n`),
      [
        {
          severity: 'warning',
          where: 'mcp.env',
          what: expect.stringMatching(/SECRET_KEY_PREVIOUS that auth\.env does/),
        },
      ],
    ],
    [
      'a SECRET_KEY_PREVIOUS that only auth has',
      () => platform.edit('auth', (text) => `${text}SECRET_KEY_PREVIOUS=another-Zr9tWx4yVb6nMk2jHg8fDs3aQp5oLi7u\n`),
      ['command-orchestration', 'recipes', 'settings', 'mcp'].map((name) => ({
        severity: 'broken',
        where: `${name}.env`,
        what: 'Not set: SECRET_KEY_PREVIOUS.',
      })),
    ],
    [
      'another name for this service than its keys have',
      () => platform.edit('auth', (text) => `${text}SERVICE_NAME=identity\n`),
      [{ severity: 'broken', where: 'auth.env', what: expect.stringMatching(/^SERVICE_NAME is not auth/) }],
    ],
    [
      'the SECRET_KEY in the file of a service that needs none',
      () => platform.edit('ocr', (text) => `${text}SECRET_KEY=${platform.variables('auth').SECRET_KEY}\n`),
      [{ severity: 'warning', where: 'ocr.env', what: expect.stringMatching(/holds the SECRET_KEY/) }],
    ],
    [
      'a variable that is gone',
      () => platform.edit('ocr', (text) => text.replace(/^AUTH_URL=.*\n/m, '')),
      [{ severity: 'broken', where: 'ocr.env', what: 'Not set: AUTH_URL.' }],
    ],
    [
      'another name of a service that embeds a verifier',
      () => set('ocr', 'SERVICE_NAME', 'reader'),
      [{ severity: 'broken', where: 'ocr.env', what: expect.stringMatching(/^SERVICE_NAME is not ocr/) }],
    ],
    [
      'no name of a service that embeds a verifier',
      () => platform.edit('ocr', (text) => text.replace(/^SERVICE_NAME=.*\n/m, '')),
      [{ severity: 'broken', where: 'ocr.env', what: 'Not set: SERVICE_NAME.' }],
    ],
    [
      'claims that a verifier demands and auth does not write',
      () => platform.edit('ocr', (text) => `${text}JWT_AUDIENCE=ocr\nJWT_ISSUER=other\n`),
      ['JWT_ISSUER', 'JWT_AUDIENCE'].map((name) => ({
        severity: 'broken',
        where: 'ocr.env',
        what: `${name} is not what auth writes into access tokens: all of them are refused.`,
      })),
    ],
    [
      'an algorithm that does not exist',
      () => platform.edit('auth', (text) => `${text}ACCESS_TOKEN_ALGORITHM=RS256\n`),
      [{ severity: 'broken', where: 'auth.env', what: expect.stringMatching(/^ACCESS_TOKEN_ALGORITHM /) }],
    ],
    [
      'an address that is not the one of the map',
      () => set('recipes', 'OCR_URL', 'http://127.0.0.1:1'),
      [{ severity: 'warning', where: 'recipes.env', what: expect.stringMatching(/^OCR_URL is not what the map says/) }],
    ],
    [
      'a key that is refused',
      () => set('ocr', 'AUTH_APP_KEY', 'pa_app_wrong'),
      [{ severity: 'broken', where: 'ocr.env: ocr → auth', what: 'The credential in the file is refused.' }],
    ],
    [
      'a credential that was revoked',
      () => platform.database.query(`UPDATE app_credentials SET revoked_at = now() ${ofOcr}`),
      [{ severity: 'broken', where: 'ocr.env: ocr → auth', what: 'The credential in the file is refused.' }],
    ],
    [
      'the credential of another caller',
      () => {
        set('ocr', 'AUTH_APP_ID', platform.variables('recipes').AUTH_APP_ID!);
        set('ocr', 'AUTH_APP_KEY', platform.variables('recipes').AUTH_APP_KEY!);
      },
      [{ severity: 'broken', where: 'ocr.env: ocr → auth', what: expect.stringMatching(/that of recipes → auth/) }],
    ],
    [
      'a credential that was left in a file',
      () => platform.edit('mcp', (text) => `${text}OCR_APP_KEY=pa_app_left\n`),
      [{ severity: 'warning', where: 'mcp.env', what: expect.stringMatching(/^It holds OCR_APP_KEY/) }],
    ],
    [
      'a schema that is behind',
      () => platform.database.query('DELETE FROM migrations'),
      [{ severity: 'broken', where: 'database', what: expect.stringMatching(/Migrations are missing: Create/) }],
    ],
    [
      'a schema that is ahead',
      () => platform.database.query(`INSERT INTO migrations (timestamp, name) VALUES (1, 'FromTheFuture')`),
      [{ severity: 'warning', where: 'database', what: expect.stringMatching(/FromTheFuture/) }],
    ],
    [
      'a key that was not used for long',
      () => platform.database.query(`UPDATE app_credentials SET last_used_at = now() - interval '31 days' ${ofOcr}`),
      [{ severity: 'warning', where: 'ocr → auth', what: expect.stringMatching(/^The key was last used on 20/) }],
    ],
    [
      'a credential that expires soon',
      () => platform.database.query(`UPDATE app_credentials SET expires_at = now() + interval '3 days' ${ofOcr}`),
      [{ severity: 'warning', where: 'ocr → auth', what: expect.stringMatching(/^The credential expires at /) }],
    ],
    [
      'a credential of a pair that is not in the map',
      () => app.service('ocr', 'settings'),
      [{ severity: 'warning', where: 'ocr → settings', what: expect.stringMatching(/not in the map/) }],
    ],
    [
      'a logging service that does not answer',
      () => platform.edit('auth', (text) => `${text}LOGGING_SERVICE_URL=http://127.0.0.1:9/logs\n`),
      [{ severity: 'warning', what: expect.stringMatching(/^The logging service does not answer: /) }],
    ],
  ])('reports %s', async (_, plant, expected) => {
    await plant();
    const findings = await platform.diagnose(url);
    expect(findings).toEqual(expected.map((finding): unknown => expect.objectContaining(finding)));
    for (const finding of findings) expect(finding.do).not.toBe('');
  });

  it('reports ten faults at once', async () => {
    chmodSync(platform.path('mcp'), 0o644);
    rmSync(platform.path('logging'));
    set('settings', 'ADMIN_API_KEY', 'short');
    set('command-orchestration', 'SECRET_KEY', 'another-Zr9tWx4yVb6nMk2jHg8fDs3aQp5oLi7u');
    set('recipes', 'OCR_APP_KEY', 'pa_app_wrong');
    set('configuration', 'AUTH_URL', 'http://127.0.0.1:1');
    await platform.database.query(`INSERT INTO migrations (timestamp, name) VALUES (1, 'FromTheFuture')`);
    await platform.database.query(`UPDATE app_credentials SET last_used_at = now() - interval '1 year' ${ofOcr}`);
    await app.service('ocr', 'settings');
    platform.edit('auth', (text) => `${text}LOGGING_SERVICE_URL=http://127.0.0.1:9/logs\n`);
    expect((await platform.diagnose(url)).map(({ where }) => where).sort()).toEqual([
      ...['auth.env: LOGGING_SERVICE_URL', 'command-orchestration.env', 'configuration.env', 'database', 'logging.env'],
      ...['mcp.env', 'ocr → auth', 'ocr → settings', 'recipes.env: recipes → ocr', 'settings.env'],
    ]);
  });

  it('reports a clock that is ahead of the database', async () => {
    const ahead = new TestClock();
    ahead.advance({ seconds: 60 });
    expect(await platform.diagnose(url, ahead)).toEqual([
      expect.objectContaining({ severity: 'broken', where: 'clock', what: expect.stringMatching(/60 s ahead/) }),
    ]);
  });

  it('reports a service that is down once, not for each pair', async () => {
    expect(await platform.diagnose('http://127.0.0.1:9')).toEqual([
      expect.objectContaining({ severity: 'broken', where: 'http://127.0.0.1:9' }),
    ]);
  });

  it.each([
    [
      'runs without its database',
      { details: { database: { status: 'down', message: 'cannot be used' } } },
      '/health answers 503: auth runs, and cannot use its database.',
      /^Start its database, or read the log of auth for the cause\./,
    ],
    [
      'is stopping',
      { details: { database: { status: 'up' }, service: { status: 'down' } } },
      '/health answers 503.',
      /^Read the log of auth, and run doctor again\./,
    ],
    [
      'is another program',
      { status: 'starting' },
      '/health answers 503, not as auth does.',
      /^Is this the address of auth\?/,
    ],
  ])('says what to do when the service %s', async (_, body, what, remedy) => {
    const server = createServer((_request, response) => response.writeHead(503).end(JSON.stringify(body)));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const there = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    expect(await platform.diagnose(there)).toEqual([
      { severity: 'broken', where: there, what, do: expect.stringMatching(remedy) },
    ]);
    server.close();
  });

  it('reports a database that is down, and still tries the credentials', async () => {
    set('auth', 'DATABASE_URL', 'postgresql://nobody:wrong@127.0.0.1:9/none');
    set('ocr', 'AUTH_APP_KEY', 'pa_app_wrong');
    expect(await platform.diagnose(url)).toMatchObject([
      { severity: 'broken', where: 'database', what: expect.not.stringMatching(/wrong@/) },
      { severity: 'broken', where: 'ocr.env: ocr → auth' },
    ]);
  });

  it('reports the missing migrations of a database of an earlier version, and tries no key', async () => {
    set('ocr', 'AUTH_APP_KEY', 'pa_app_wrong');
    chmodSync(platform.path('mcp'), 0o640);
    const reverted = await platform.revertToFirstSchema();
    expect(await platform.diagnose(url)).toMatchObject([
      { where: 'mcp.env' },
      { severity: 'broken', where: 'database', what: `Migrations are missing: ${reverted.join(', ')}.` },
    ]);
  });

  it('reports a logging service that redirects, and does not follow', async () => {
    const server = createServer((_, response) => response.writeHead(302, { Location: url }).end());
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const there = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    platform.edit('auth', (text) => `${text}LOGGING_SERVICE_URL=${there}\n`);
    expect(await platform.diagnose(url)).toMatchObject([{ severity: 'warning', what: expect.stringMatching(/302/) }]);
    server.close();
  });

  it('reports once that validations are served on INTERNAL_PORT only, and nothing on that port', async () => {
    const split = await TestApp.start({
      database: platform.database,
      clock: platform.clock,
      variables: { INTERNAL_PORT: '0' },
    });
    const [outside, inside] = [split.server, split.internal!].map(
      (server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    );
    expect(await platform.diagnose(outside)).toMatchObject([
      { severity: 'broken', what: 'No verdict: 404 from auth.', do: expect.stringMatching(/INTERNAL_PORT/) },
    ]);
    expect(await platform.diagnose(inside)).toEqual([]);
    await split.stop();
  });

  describe('while an overlap is open', () => {
    it('does not end the overlap, because the caller may not have read its file yet', async () => {
      const old = platform.headers('ocr', 'auth');
      platform.edit('ocr', (text) => text.replace(/^AUTH_APP_KEY=.*\n/m, ''));
      await platform.init();
      expect(await platform.diagnose(url)).toMatchObject([
        { severity: 'warning', where: 'ocr.env: ocr → auth', do: expect.stringMatching(/^Restart ocr/) },
      ]);
      await app.validateApp(old, { target: 'auth' }).expect(200);
    });

    it('reports a file that holds the old key', async () => {
      const id = platform.variables('ocr').AUTH_APP_ID;
      await app.admin.post(`/app-credentials/${id}/rotate`, { overlap_hours: 1 }).expect(200);
      expect(await platform.diagnose(url)).toMatchObject([
        {
          severity: 'warning',
          what: expect.stringMatching(/does not hold the new one; the old one works until 20/),
          do: expect.any(String),
        },
      ]);
    });
  });

  it('does not count as the first use of a key', async () => {
    await platform.database.query(`UPDATE app_credentials SET last_used_at = now() - interval '31 days' ${ofOcr}`);
    await platform.diagnose(url);
    await app.nest.close();
    const [row] = await platform.database.query<{ long: boolean }>(
      `SELECT last_used_at < now() - interval '30 days' AS long FROM app_credentials ${ofOcr}`,
    );
    expect(row).toEqual({ long: true });
  });

  it('prints no secret', async () => {
    platform.edit('ocr', (text) => text.replace('pa_app_', 'pa_app_x'));
    const told = JSON.stringify(await platform.diagnose(url));
    const secrets = platform.map.services.flatMap(({ name }) =>
      Object.entries(platform.variables(name)).flatMap(([key, value]) => (key.endsWith('_KEY') ? value! : [])),
    );
    expect(secrets.filter((secret) => told.includes(secret))).toEqual([]);
  });
});
