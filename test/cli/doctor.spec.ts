import { APP_KEYS, type AppKeys } from '../../src/domain/app-credentials/app-credentials.service.js';
import { chmodSync, cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { askServices, formatRunning } from '../../src/cli/platform/doctor-calls.js';
import { checkKeys } from '../../src/cli/platform/doctor-keys.js';
import { diagnose } from '../../src/cli/platform/doctor.js';
import type { Plan } from '../../src/cli/platform/plan.js';
import { readPlatformMap } from '../../src/cli/platform/platform-map.js';
import { describeUnreadable } from '../../src/cli/platform/environment-files.js';
import { repeatWhile } from '../../tools/repeat-while.js';
import { urlOf } from '../support/cli.js';
import { serve } from '../support/serve.js';
import { ADMIN_KEY } from '../support/settings.js';
import { TestApp } from '../support/test-app.js';
import { TestClock } from '../support/test-clock.js';
import { OwnPlatform, SHIPPED_MAP, useCommands } from './own-platform.js';

useCommands();

const OTHER_SECRET = 'another-Zr9tWx4yVb6nMk2jHg8fDs3aQp5oLi7u';

interface Expected {
  readonly severity: 'broken' | 'warning';
  readonly where?: string;
  readonly what: string | RegExp;
  readonly do?: RegExp;
}
type Fault = [plant: () => unknown, ...expected: Expected[]];

const broken = (where: string, what: string | RegExp, remedy?: RegExp): Expected => ({
  severity: 'broken',
  where,
  what,
  ...(remedy && { do: remedy }),
});
const warning = (where: string, what: string | RegExp): Expected => ({ severity: 'warning', where, what });

describe('platform-auth doctor', () => {
  let platform: OwnPlatform;
  let app: TestApp;
  let url: string;

  async function start(): Promise<void> {
    platform = await OwnPlatform.create({ isEmpty: false });
    await platform.init();
    set('auth', 'ADMIN_API_KEY', ADMIN_KEY);
    // Doctor asks for the lease, which a busy machine loses for a moment when it is short.
    const variables = { REVOCATION_LEASE_MS: '2000' };
    app = await TestApp.start({ database: platform.database, clock: platform.clock, variables });
    url = urlOf(app);
  }

  async function stop(): Promise<void> {
    await app.stop();
    await platform.remove();
  }

  const set = (service: string, name: string, value: string) =>
    platform.edit(service, (text) => text.replace(new RegExp(`^${name}=.*`, 'm'), `${name}=${value}`));
  const add = (service: string, lines: string) => platform.edit(service, (text) => `${text}${lines}\n`);
  const removeLine = (service: string, name: string) =>
    platform.edit(service, (text) => text.replace(new RegExp(`^${name}=.*\n`, 'm'), ''));

  async function expectReported(faults: readonly Fault[]): Promise<void> {
    for (const [plant] of faults) await plant();
    const findings = await platform.diagnose(url);
    const matching = (value: unknown): unknown =>
      value instanceof RegExp ? (expect.stringMatching(value) as unknown) : value;
    for (const [, ...expected] of faults)
      for (const finding of expected) {
        const fields = Object.entries(finding).map(([name, value]) => [name, matching(value)] as const);
        expect(findings).toContainEqual(expect.objectContaining(Object.fromEntries(fields)));
      }
    expect(findings).toHaveLength(faults.flatMap(([, ...expected]) => expected).length);
    for (const finding of findings) expect(finding.do).not.toBe('');
  }

  describe('of a platform whose files were edited', () => {
    let intact: string;

    beforeAll(async () => {
      await start();
      intact = `${platform.envDir}.intact`;
      cpSync(platform.envDir, intact, { recursive: true });
    });
    afterEach(() => {
      rmSync(platform.envDir, { recursive: true });
      cpSync(intact, platform.envDir, { recursive: true });
    });
    afterAll(stop);

    it('refuses a folder that does not exist', async () => {
      const envDir = `${platform.envDir}-typo`;
      await expect(diagnose({ map: platform.map, envDir, url })).rejects.toMatchObject({
        code: 'strange_env_dir',
        message: expect.stringContaining(`${envDir} does not exist`),
      });
    });

    it('does not take DATABASE_URL from the .env of the current folder', async () => {
      rmSync(platform.path('auth'));
      const [folder, before] = [mkdtempSync(join(tmpdir(), 'doctor-')), process.cwd()];
      writeFileSync(join(folder, '.env'), `DATABASE_URL=${platform.database.url}\n`);
      process.chdir(folder);
      const findings = await platform.diagnose(url).finally(() => process.chdir(before));
      rmSync(folder, { recursive: true });
      expect(findings).toContainEqual(expect.objectContaining({ where: 'database' }));
    });

    /** Faults that are reported beside each other, because each is in another file or of another variable. */
    const faults: Fault[][] = [
      [
        [() => chmodSync(platform.path('mcp'), 0o640), broken('mcp.env', /mode 0640/)],
        [
          () => rmSync(platform.path('logging')),
          broken('logging.env', 'The file is missing.', /^Is --env-dir right\?/),
        ],
        [
          () => {
            rmSync(platform.path('text-to-speech'));
            symlinkSync('/dev/null', platform.path('text-to-speech'));
          },
          broken('text-to-speech.env', /symbolic link/),
        ],
        [
          () => set('settings', 'ADMIN_API_KEY', 'changeme-changeme-changeme-changeme'),
          broken('settings.env', /ADMIN_API_KEY looks like a placeh/),
        ],
        [() => set('mcp', 'SECRET_KEY', OTHER_SECRET), broken('mcp.env', 'SECRET_KEY is not that of auth.env.')],
        [
          () => add('auth', 'CONSOLE=on'),
          warning('auth.env', 'The console is on PORT: every client of the public routes reaches its login.'),
        ],
        [
          () => add('recipes', `SECRET_KEY_PREVIOUS=${OTHER_SECRET}`),
          warning('recipes.env', /SECRET_KEY_PREVIOUS that auth\.env does/),
        ],
        [
          () => add('ocr', `SECRET_KEY=${platform.variables('auth').SECRET_KEY}`),
          warning('ocr.env', /holds the SECRET_KEY/),
        ],
        [
          () => add('ocr', `MASTER_KEY=${platform.variables('auth').MASTER_KEY}`),
          broken('ocr.env', 'It holds the MASTER_KEY, which only auth may have.'),
        ],
        [
          () => add('auth', `MASTER_KEY_PREVIOUS=${platform.variables('auth').SECRET_KEY}`),
          warning('auth.env', /^There is no MASTER_KEY apart from the SECRET_KEY, or one of their former values/),
        ],
        [() => removeLine('speech-to-text', 'AUTH_URL'), broken('speech-to-text.env', 'Not set: AUTH_URL.')],
        [() => removeLine('ocr', 'SERVICE_NAME'), broken('ocr.env', 'Not set: SERVICE_NAME.')],
        [
          () => set('recipes', 'OCR_URL', 'http://127.0.0.1:1'),
          warning('recipes.env', /^OCR_URL is not what the map says/),
        ],
        [
          () => set('ocr', 'AUTH_APP_KEY', 'pa_app_wrong'),
          broken('ocr.env: ocr → auth', 'The credential in the file is refused.'),
        ],
        [
          () => {
            set('configuration', 'AUTH_APP_ID', platform.variables('recipes').AUTH_APP_ID!);
            set('configuration', 'AUTH_APP_KEY', platform.variables('recipes').AUTH_APP_KEY!);
          },
          broken('configuration.env: configuration → auth', /that of recipes → auth/),
        ],
        [() => add('mcp', 'OCR_APP_KEY=pa_app_left'), warning('mcp.env', /^It holds OCR_APP_KEY/)],
        [
          () => add('auth', 'LOGGING_SERVICE_URL=http://127.0.0.1:9/logs'),
          { severity: 'warning', what: /^The logging service does not answer: / },
        ],
      ],
      [
        [
          () => set('settings', 'ADMIN_API_KEY', 'k3yOfTooFewBytes'),
          broken('settings.env', /ADMIN_API_KEY must be at least 32/),
        ],
        [
          () => set('auth', 'ADMIN_API_KEY', OTHER_SECRET),
          broken(
            'auth.env: ADMIN_API_KEY',
            /service refuses this/,
            /^Restart auth with this file, .* an exported one wins over the file\. Or write /,
          ),
        ],
        [
          () => add('auth', `SECRET_KEY_PREVIOUS=${OTHER_SECRET}`),
          ...['command-orchestration', 'recipes', 'settings', 'mcp'].map((name) =>
            broken(`${name}.env`, 'Not set: SECRET_KEY_PREVIOUS.'),
          ),
        ],
        [
          () => removeLine('auth', 'MASTER_KEY'),
          warning('auth.env', /^There is no MASTER_KEY apart from the SECRET_KEY/),
        ],
        [() => add('auth', 'SERVICE_NAME=identity'), broken('auth.env', /^SERVICE_NAME is not auth/)],
        [() => add('auth', 'NODE_TARGETS=ocr'), warning('auth.env', /^NODE_TARGETS restricts new nodes/)],
        [() => set('ocr', 'SERVICE_NAME', 'reader'), broken('ocr.env', /^SERVICE_NAME is not ocr/)],
        [
          () => add('ocr', 'JWT_AUDIENCE=ocr\nJWT_ISSUER=other'),
          ...['JWT_ISSUER', 'JWT_AUDIENCE'].map((name) =>
            broken('ocr.env', `${name} is not what auth writes into access tokens: all of them are refused.`),
          ),
        ],
        [() => add('auth', 'ACCESS_TOKEN_ALGORITHM=RS256'), broken('auth.env', /^ACCESS_TOKEN_ALGORITHM /)],
        [
          () => chmodSync(platform.envDir, 0o777),
          { severity: 'broken', what: 'Every user may replace the files in this folder.' },
        ],
        [
          () => {
            set('ocr', 'AUTH_APP_ID', platform.variables('recipes').AUTH_APP_ID!);
            set('ocr', 'AUTH_APP_KEY', platform.variables('recipes').AUTH_APP_KEY!);
          },
          broken('ocr.env: ocr → auth', 'The credential in the file is refused.'),
        ],
      ],
    ];

    it('reports nothing on a healthy platform', async () => {
      expect(await platform.diagnose(url)).toEqual([]);
    });

    it.each(faults)('reports every one of several faults of files, and nothing else', async (...planted) => {
      await expectReported(planted);
    });

    it('reports a clock that is ahead of the database', async () => {
      const ahead = new TestClock();
      ahead.advance({ seconds: 60 });
      expect(await platform.diagnose(url, ahead)).toEqual([
        expect.objectContaining({ severity: 'broken', where: 'clock', what: expect.stringMatching(/60 s ahead/) }),
      ]);
    });

    it('says with --live which services answer, and that it cannot know who they are', async () => {
      const { url: there, close } = await serve((_, response) => response.writeHead(404).end());
      const services = [
        { name: 'auth', url },
        { name: 'ocr', url: there },
        { name: 'recipes', url: 'http://127.0.0.1:9' },
      ].map((one) => ({
        ...one,
        calls: [],
        scopes: {},
        forUsers: {},
        urls: [],
        adminEndpoints: false,
        verifiesAccessTokens: false,
      }));
      const running = await askServices({ services });
      close();
      expect(running).toEqual([
        { name: 'ocr', url: there, status: 404 },
        { name: 'recipes', url: 'http://127.0.0.1:9', status: null, error: expect.stringMatching(/./) },
      ]);
      expect(formatRunning(running)).toMatch(/ocr: .* cannot know\.\n {2}recipes does not answer at .*\n/);
    });

    it('cancels the endless answer of another program with --live', async () => {
      const chunk = Buffer.alloc(65_536);
      let sentBytes = 0;
      const { url: there, close } = await serve((_, response) => {
        const sendChunk = (): void => {
          sentBytes += chunk.length;
          response.write(chunk);
        };
        response.on('drain', sendChunk).writeHead(200);
        sendChunk();
      });
      const ocr = { name: 'ocr', url: there, calls: [], scopes: {}, forUsers: {}, urls: [], adminEndpoints: false };
      const running = await askServices({ services: [{ ...ocr, verifiesAccessTokens: false }] });
      close();
      expect(running).toEqual([{ name: 'ocr', url: there, status: 200 }]);
      // What the buffers of both ends take before the client closes the connection.
      expect(sentBytes).toBeLessThan(32 * 2 ** 20);
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
        'has a wrong clock',
        {
          details: {
            database: { status: 'up' },
            clock: { status: 'down', message: '90 s ahead of the clock of the database' },
          },
        },
        '/health answers 503: the clock of this replica is 90 s ahead of the clock of the database.',
        /^Repair the time synchronisation \(NTP\) of its machine/,
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
      const { url: there, close } = await serve((_request, response) =>
        response.writeHead(503).end(JSON.stringify(body)),
      );
      expect(await platform.diagnose(there)).toEqual([
        { severity: 'broken', where: there, what, do: expect.stringMatching(remedy) },
      ]);
      close();
    });

    it('reports a database that is down, and still tries the credentials', async () => {
      set('auth', 'DATABASE_URL', 'postgresql://nobody:wrong@127.0.0.1:9/none');
      set('ocr', 'AUTH_APP_KEY', 'pa_app_wrong');
      expect(await platform.diagnose(url)).toMatchObject([
        { severity: 'broken', where: 'database', what: expect.not.stringMatching(/wrong@/) },
        { severity: 'broken', where: 'ocr.env: ocr → auth' },
      ]);
    });

    it('reports a logging service that redirects, and does not follow', async () => {
      const { url: there, close } = await serve((_, response) => response.writeHead(302, { Location: url }).end());
      platform.edit('auth', (text) => `${text}LOGGING_SERVICE_URL=${there}\n`);
      expect(await platform.diagnose(url)).toMatchObject([{ severity: 'warning', what: expect.stringMatching(/302/) }]);
      close();
    });

    it('reports targets of nodes that the map does not have, and none where a node is restricted to its services', async () => {
      const [right, wrong] = [await app.node(), await app.node()];
      await app.admin.patch(`/nodes/${right.nodeId}`, { targets: ['ocr'] }).expect(200);
      await app.admin.patch(`/nodes/${wrong.nodeId}`, { targets: ['ocr', 'speach'] }).expect(200);
      const expected = warning('nodes with the targets ocr, speach (1)', 'The map has no service speach.');
      expect(await platform.diagnose(url)).toMatchObject([expected]);
      for (const { nodeId } of [right, wrong]) await app.admin.delete(`/nodes/${nodeId}`).expect(204);
    });

    it('reports a service that would accept a node outside its targets', async () => {
      const answers: Readonly<Record<string, object>> = {
        '/health': { details: {} },
        '/api/v0/admin/nodes/targets': { items: [{ targets: ['ocr'], live: 3, node_id: 'n' }] },
        '/api/v0/admin/nodes/n/explain?target=auth': { accepted_now: true },
      };
      const { url: there, close } = await serve((request, response) =>
        response.setHeader('Content-Type', 'application/json').end(JSON.stringify(answers[request.url!] ?? {})),
      );
      const expected = broken('nodes with the targets ocr (3)', 'auth would accept n.');
      expect(await platform.diagnose(there)).toContainEqual(expect.objectContaining(expected));
      close();
    });

    it('reports once that validations are served on INTERNAL_PORT only, and nothing on that port', async () => {
      const split = await TestApp.start({
        database: platform.database,
        clock: platform.clock,
        variables: { INTERNAL_PORT: '0' },
      });
      const [outside, inside] = [split.server, split.internal!].map((server) => urlOf({ server }));
      // A service without CPU answers 503, or too late.
      const diagnoseUndisturbed = (at?: string) =>
        repeatWhile(
          (findings) => findings.some(({ what }) => /\b503\b|timeout/.test(what)),
          () => platform.diagnose(at),
        );
      expect(await diagnoseUndisturbed(outside)).toMatchObject([
        { severity: 'broken', what: 'No verdict: 404 from auth.', do: expect.stringMatching(/INTERNAL_PORT/) },
      ]);
      expect(await diagnoseUndisturbed(inside)).toEqual([]);
      await split.stop();
    });

    it('says that a service has another database, and not to run init', async () => {
      const other = await TestApp.start({ clock: platform.clock });
      const remedies = (await platform.diagnose(urlOf(other))).map((finding) => finding.do);
      await other.stop();
      expect(remedies).toContain(
        'The service there uses another database: correct --url, or the DATABASE_URL of one of them.',
      );
      expect(remedies.filter((remedy) => remedy.startsWith('Run init'))).toEqual([]);
    });

    it('prints no secret', async () => {
      platform.edit('ocr', (text) => text.replace('pa_app_', 'pa_app_x'));
      const told = JSON.stringify(await platform.diagnose(url));
      expect(platform.secrets.filter((secret) => told.includes(secret))).toEqual([]);
    });
  });

  describe('of a platform whose database or service changed', () => {
    beforeEach(start);
    afterEach(stop);

    const ofPair = (caller: string) => `WHERE caller = '${caller}' AND target = 'auth'`;
    const faults: Fault[] = [
      [
        () => platform.database.query(`UPDATE app_credentials SET revoked_at = now() ${ofPair('ocr')}`),
        broken('ocr.env: ocr → auth', 'The credential in the file is refused.'),
      ],
      [
        () =>
          platform.database.query(`INSERT INTO migrations (timestamp, name) VALUES (9999999999999, 'FromTheFuture')`),
        warning('database', /FromTheFuture/),
      ],
      [() => setUnused('recipes'), warning('recipes → auth', /^The key was last used on 20/)],
      [
        () =>
          platform.database.query(
            `UPDATE app_credentials SET expires_at = now() + interval '3 days' ${ofPair('configuration')}`,
          ),
        warning('configuration → auth', /^The credential expires at /),
      ],
      [() => app.service('ocr', 'settings'), warning('ocr → settings', /not in the map/)],
    ];
    const setUnused = (caller: string) =>
      platform.database.query(`UPDATE app_credentials SET last_used_at = now() - interval '31 days' ${ofPair(caller)}`);

    it('reports every one of several faults, and nothing else', async () => {
      await expectReported(faults);
    });

    it('reports the settings of a running production that are weak, as the start and status do', async () => {
      const variables = { NODE_ENV: 'production', ADMIN_SET_PASSWORDS: 'refused' };
      const production = await app.startReplica({ variables });
      const found = await platform.diagnose(urlOf(production));
      await production.stop();
      const { weak_settings } = (await app.admin.get('/configuration-review')).body as { weak_settings: unknown[] };
      expect(weak_settings).toEqual([]);
      expect(found).toEqual([
        expect.objectContaining({
          severity: 'warning',
          where: 'auth: BCRYPT_COST',
          what: expect.stringMatching(/^Weak: /),
        }),
      ]);
    });

    it('reports the missing migrations of a database of an earlier version, and tries no key', async () => {
      set('ocr', 'AUTH_APP_KEY', 'pa_app_wrong');
      chmodSync(platform.path('mcp'), 0o640);
      const reverted = await platform.revertToAppCredentials();
      expect(await platform.diagnose(url)).toMatchObject([
        { where: 'mcp.env' },
        { severity: 'broken', where: 'database', what: `Migrations are missing: ${reverted.join(', ')}.` },
      ]);
    });

    it('reports while an overlap is open which service has to read its new key, and does not end the overlap', async () => {
      const old = platform.headers('ocr', 'auth');
      await app.admin.post(`/app-credentials/${old['X-Platform-App-Id']}/rotate`, { overlap_hours: 1 }).expect(200);
      const finding = { severity: 'warning', where: 'ocr.env: ocr → auth' };
      expect(await platform.diagnose(url)).toMatchObject([
        { ...finding, what: expect.stringMatching(/does not hold the new one; the old one works until 20/) },
      ]);
      set('auth', 'ADMIN_API_KEY', OTHER_SECRET);
      expect((await platform.diagnose(url)).filter(({ where }) => where === finding.where)).toMatchObject([finding]);
      set('auth', 'ADMIN_API_KEY', ADMIN_KEY);
      platform.edit('ocr', (text) => text.replace(/^AUTH_APP_KEY=.*\n/m, ''));
      await platform.init();
      // The caller may not have read its file yet.
      expect(await platform.diagnose(url)).toMatchObject([{ ...finding, do: expect.stringMatching(/^Restart ocr/) }]);
      await app.validateApp(old, { target: 'auth' }).expect(200);
    });

    it('says once the new key is used when the old one was, and how to end it', async () => {
      const old = platform.headers('ocr', 'auth');
      await platform.init({ rotate: 'ocr' });
      for (const headers of [platform.headers('ocr', 'auth'), old])
        await app.validateApp(headers, { target: 'auth' }).expect(200);
      await app.nest.get<AppKeys>(APP_KEYS, { strict: false }).flushLastUsed();
      expect(await platform.diagnose(url)).toMatchObject([
        {
          where: 'ocr.env: ocr → auth',
          what: expect.stringMatching(
            /the new one is used, and the old one was last used at 20\S+, for auth; the old one works until 20/,
          ),
          do: expect.stringContaining(`platform-auth apps rotate ${old['X-Platform-App-Id']} --finish`),
        },
      ]);
    });

    it.each([
      ['with the admin key', () => undefined],
      ['without it', () => removeLine('auth', 'ADMIN_API_KEY')],
    ])('does not count as a use of any key, %s', async (_, edit) => {
      edit();
      const read = () =>
        platform.database.query('SELECT id, last_used_at FROM app_credentials WHERE last_used_at IS NOT NULL');
      await app.validateApp(platform.headers('ocr', 'auth'), { target: 'auth' }).expect(200);
      await app.nest.get<AppKeys>(APP_KEYS, { strict: false }).flushLastUsed();
      const before = await read();
      expect(before).toHaveLength(1);
      platform.clock.advance({ minutes: 10 });
      await platform.diagnose(url);
      await app.nest.get<AppKeys>(APP_KEYS, { strict: false }).flushLastUsed();
      expect(await read()).toEqual(before);
    });
  });

  it('names the command that repairs a file without the new key', () => {
    const { services } = readPlatformMap(SHIPPED_MAP);
    const service = services.find(({ name }) => name === 'ocr')!;
    const credential = {
      ...{ app_id: 'a', caller: 'ocr', target: 'auth', created_at: '', updated_at: '', revoked_at: null },
      ...{ expires_at: null, scopes: null, scope_uses: [], last_used_at: '2026-11-22', rotated_at: '2026-11-22' },
      previous_key_expires_at: '2026-11-24',
    };
    const pair = { caller: 'ocr', target: 'auth', action: 'rotate', credential } as const;
    const plan = { services: [{ service, file: { exists: true }, settings: {}, pairs: [pair] }], strays: [] };
    const found = [...checkKeys(plan as unknown as Plan, [], new Date('2026-11-23'), 'apply')];
    expect(found).toMatchObject([{ where: 'ocr → auth', do: 'Run apply, then restart the service.' }]);
  });

  it('does not advise to remove a file that it may not read', () => {
    const denied = Object.assign(new Error('EACCES: permission denied'), { code: 'EACCES' });
    expect(describeUnreadable('ocr.env', denied).remedy).toMatch(/Do not remove it/);
  });
});
