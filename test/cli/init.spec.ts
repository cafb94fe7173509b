import { existsSync, mkdirSync, readFileSync, rmdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { EnvFile } from '../../src/foundation/config/env-file.js';
import { migrate } from '../../src/foundation/database/migrate.js';
import { TestApp } from '../support/test-app.js';
import { actions, OwnPlatform, SHIPPED_MAP, SPECIFIED_PAIRS, useCommands } from './own-platform.js';

useCommands();

let platform: OwnPlatform;

/** The events of the audit log that name this operator. */
const acted = (operator: string) =>
  platform.database.query(`SELECT FROM audit_events WHERE actor_door = 'cli' AND details ->> 'operator' = $1`, [
    operator,
  ]);

describe('platform-auth init on an empty machine', () => {
  let report: Awaited<ReturnType<OwnPlatform['init']>>;

  beforeAll(async () => {
    platform = await OwnPlatform.create();
    report = await platform.init();
  });

  afterAll(() => platform.remove());

  it('creates the schema, a credential for each pair of the map, and a file for each service', async () => {
    expect(report.migrations.length).toBeGreaterThan(0);
    expect(actions(report)).toEqual(['issue']);
    expect(await platform.livePairs()).toEqual(SPECIFIED_PAIRS);
    expect(report.files.every(({ changed }) => changed)).toBe(true);
    for (const { name } of platform.map.services) expect(statSync(platform.path(name)).mode & 0o777).toBe(0o600);
    expect(await acted(userInfo().username)).toHaveLength(SPECIFIED_PAIRS.length);
  });

  it('gives each service the variables that it needs and no others', () => {
    const names = (service: string): string[] => Object.keys(platform.variables(service)).sort();
    const ofAuth = [
      'ADMIN_API_KEY',
      'ADMIN_SET_PASSWORDS',
      'AUDIT_SEAL_KEY',
      'DATABASE_URL',
      'MASTER_KEY',
      'SECRET_KEY',
    ];
    expect(names('auth')).toEqual(ofAuth);
    // A production platform begins without a warning of its settings.
    expect(platform.variables('auth')).toMatchObject({ ADMIN_SET_PASSWORDS: 'refused' });
    const ofVerifier = ['AUTH_APP_ID', 'AUTH_APP_KEY', 'AUTH_URL', 'SERVICE_NAME'];
    expect(names('ocr')).toEqual(ofVerifier);
    const ofOcr = ['OCR_APP_ID', 'OCR_APP_KEY', 'OCR_URL'];
    expect(names('recipes')).toEqual([...ofVerifier, ...ofOcr, 'SECRET_KEY'].sort());
    expect(names('logging')).toEqual(['ADMIN_API_KEY', ...ofVerifier]);
    expect(names('speech-to-text')).toEqual(['AUTH_URL']);
    expect(names('mcp')).toEqual(['AUTH_URL', 'SECRET_KEY']);
    expect(platform.variables('ocr').AUTH_URL).toBe('http://127.0.0.1:7701');
  });

  it('gives all verifiers the same SECRET_KEY, and each service its own ADMIN_API_KEY', () => {
    const all = (name: string): string[] =>
      platform.map.services.flatMap((service) => platform.variables(service.name)[name] ?? []);
    expect(all('SECRET_KEY')).toHaveLength(5);
    expect(new Set(all('SECRET_KEY')).size).toBe(1);
    expect(new Set(all('ADMIN_API_KEY')).size).toBe(all('ADMIN_API_KEY').length);
  });

  it('prints no secret', () => {
    const told = JSON.stringify(report);
    expect(platform.secrets.length).toBeGreaterThan(SPECIFIED_PAIRS.length);
    expect(platform.secrets.filter((secret) => told.includes(secret))).toEqual([]);
  });

  it('is idempotent: changes no byte of a file and no row', async () => {
    const before = await platform.state();
    const again = await platform.init();
    expect(actions(again)).toEqual(['keep']);
    expect(again.files.filter(({ changed }) => changed)).toEqual([]);
    expect(await platform.state()).toEqual(before);
  });
});

describe('platform-auth init on a platform in use', () => {
  beforeAll(async () => {
    platform = await OwnPlatform.create({ isEmpty: false });
  });

  // What the test before has changed is repaired.
  beforeEach(async () => {
    platform.changeMap(() => undefined, SHIPPED_MAP);
    await platform.init({ prune: true });
  });

  afterAll(() => platform.remove());

  it('replaces a lost key, and the old one is accepted until its overlap ends', async () => {
    const app = await TestApp.start({ database: platform.database, clock: platform.clock });
    const old = platform.headers('ocr', 'auth');
    platform.edit('ocr', (text) => `# mine\n${text.replace(/^AUTH_APP_KEY=.*\n/m, '')}`);
    const report = await platform.init();
    expect(report.pairs.filter(({ action }) => action !== 'keep')).toEqual([
      { caller: 'ocr', target: 'auth', action: 'rotate', app_id: old['X-Platform-App-Id'] },
    ]);
    expect(readFileSync(platform.path('ocr'), 'utf8')).toMatch(/^# mine\n/);
    const target = { target: 'auth' };
    await app.validateApp(old, target).expect(200);
    platform.clock.advance({ days: 1, seconds: 1 });
    await app.validateApp(old, target).expect(401);
    await app.validateApp(platform.headers('ocr', 'auth'), target).expect(200);
    await app.admin.post(`/app-credentials/${old['X-Platform-App-Id']}/finish-rotation`).expect(204);
    await app.stop();
    platform.clock.advance({ days: -1, seconds: -1 });
  });

  it('replaces a key that was rotated elsewhere and is not in the file', async () => {
    const app = await TestApp.start({ database: platform.database, clock: platform.clock });
    const old = platform.headers('ocr', 'auth');
    await app.admin.post(`/app-credentials/${old['X-Platform-App-Id']}/rotate`).expect(200);
    expect(actions(await platform.init()).sort()).toEqual(['keep', 'rotate']);
    expect(actions(await platform.init())).toEqual(['keep']);
    await app.validateApp(old, { target: 'auth' }).expect(200);
    await app.validateApp(platform.headers('ocr', 'auth'), { target: 'auth' }).expect(200);
    await app.admin.post(`/app-credentials/${old['X-Platform-App-Id']}/finish-rotation`).expect(204);
    await app.validateApp(old, { target: 'auth' }).expect(401);
    await app.stop();
  });

  it('rotates the keys of one service or of all, and records who asked for it', async () => {
    const report = await platform.init({ rotate: 'ocr', as: 'alice' });
    const rotated = report.pairs.filter(({ action }) => action !== 'keep');
    expect(new Set(rotated.map(({ caller, action }) => `${caller} ${action}`))).toEqual(new Set(['ocr rotate']));
    expect(await acted('alice')).toHaveLength(rotated.length);
    expect(actions(await platform.init({ rotate: 'all' }))).toEqual(['rotate']);
    expect(actions(await platform.init())).toEqual(['keep']);
    await expect(platform.init({ rotate: 'none' })).rejects.toMatchObject({ code: 'unknown_service' });
  });

  it('restores a lost id without a new key', async () => {
    const rows = await platform.rows();
    const before = platform.variables('ocr');
    platform.edit('ocr', (text) => text.replace(/^AUTH_APP_ID=.*\n/m, ''));
    expect(actions(await platform.init())).toEqual(['keep']);
    expect(platform.variables('ocr')).toEqual(before);
    expect(await platform.rows()).toEqual(rows);
  });

  it('issues a revoked credential again, and copies a SECRET_KEY that was changed in its own file', async () => {
    await platform.database.query(`UPDATE app_credentials SET revoked_at = now() WHERE caller = 'recipes'`);
    const secretKey = 'another-Zr9tWx4yVb6nMk2jHg8fDs3aQp5oLi7u';
    platform.edit('auth', (text) => text.replace(/^SECRET_KEY=.*/m, `SECRET_KEY=${secretKey}`));
    const report = await platform.init();
    expect(report.pairs.flatMap(({ caller, action }) => (action === 'issue' ? caller : []))).toEqual([
      'recipes',
      'recipes',
    ]);
    expect(platform.variables('recipes').SECRET_KEY).toBe(secretKey);
    expect(await platform.livePairs()).toEqual(SPECIFIED_PAIRS);
  });

  it('gives the previous SECRET_KEY of a rotation to all verifiers', async () => {
    const { SECRET_KEY } = platform.variables('auth');
    const replaced = `SECRET_KEY=another-Zr9tWx4yVb6nMk2jHg8fDs3aQp5oLi7u\nSECRET_KEY_PREVIOUS=${SECRET_KEY}`;
    platform.edit('auth', (text) => text.replace(/^SECRET_KEY=.*/m, replaced));
    const seal = platform.variables('auth').AUDIT_SEAL_KEY;
    await platform.init();
    expect(platform.variables('recipes').SECRET_KEY_PREVIOUS).toBe(SECRET_KEY);
    expect(platform.variables('ocr')).not.toHaveProperty('SECRET_KEY_PREVIOUS');
    expect(platform.variables('auth').AUDIT_SEAL_KEY).toBe(seal);
  });

  it('makes neither MASTER_KEY nor AUDIT_SEAL_KEY where the SECRET_KEY encrypts and seals already', async () => {
    platform.edit('auth', (text) => text.replace(/^(MASTER|AUDIT_SEAL)_KEY=.*\n/gm, ''));
    await platform.init();
    expect(Object.keys(platform.variables('auth')).filter((name) => /^(MASTER|AUDIT)/.test(name))).toEqual([]);
  });

  it('makes a file readable by its owner only, without changing its content', async () => {
    const text = readFileSync(platform.path('mcp'), 'utf8');
    rmSync(platform.path('mcp'));
    writeFileSync(platform.path('mcp'), text, { mode: 0o644 });
    await platform.init();
    expect(statSync(platform.path('mcp')).mode & 0o777).toBe(0o600);
    expect(readFileSync(platform.path('mcp'), 'utf8')).toBe(text);
  });

  it('gives auth a credential for the logging service when the map has that call', async () => {
    platform.changeMap(({ services }) => {
      services.auth!.calls = ['logging'];
      services.auth!.urls = { LOGGING_SERVICE_URL: 'logging/api/v0/logs' };
    });
    await platform.init();
    expect(platform.variables('auth')).toMatchObject({
      LOGGING_SERVICE_URL: 'http://127.0.0.1:7707/api/v0/logs',
      LOGGING_APP_ID: expect.stringMatching(/^[0-9a-f-]{36}$/),
      LOGGING_APP_KEY: expect.stringMatching(/^pa_app_/),
    });
    expect(platform.variables('auth')).not.toHaveProperty('LOGGING_URL');
  });

  it('subscribes a service to the events of the map, and leaves a subscription alone that the map does not name', async () => {
    const readTypes = () => platform.database.query('SELECT service, types FROM event_subscriptions');
    const setEvents = (events?: string[]) =>
      platform.changeMap(({ services }) => {
        if (events) services.recipes!.events = events;
        else delete services.recipes!.events;
      });
    setEvents(['user.deleted', 'node.revoked']);
    const subscription = { service: 'recipes', types: ['user.deleted', 'node.revoked'] };
    expect((await platform.init({ dryRun: true })).subscriptions).toEqual([subscription]);
    expect(await readTypes()).toEqual([]);
    expect((await platform.init()).subscriptions).toEqual([subscription]);
    expect(await readTypes()).toEqual([subscription]);
    expect((await platform.init()).subscriptions).toEqual([]);
    setEvents(['user.deleted']);
    await platform.init();
    setEvents();
    expect((await platform.init()).subscriptions).toEqual([]);
    expect(await readTypes()).toEqual([{ service: 'recipes', types: ['user.deleted'] }]);
  });

  it('gives a credential the scopes of the map with the same key, and new nodes their targets', async () => {
    const { OCR_APP_KEY } = platform.variables('recipes');
    const scopes = async () => {
      const rows = await platform.database.query(
        `SELECT scopes FROM app_credentials WHERE caller || target = 'recipesocr' AND revoked_at IS NULL`,
      );
      return rows.map((row) => (row as { scopes: string[] | null }).scopes);
    };
    platform.changeMap((map) => {
      map.services.recipes!.calls = { auth: null, ocr: ['documents:read', 'pages:count'] };
      map.nodes = { targets: ['command-orchestration', 'speech-to-text'] };
    });
    expect(await platform.diagnose()).toContainEqual(
      expect.objectContaining({
        what: 'The scopes of the credential are all; the map says documents:read, pages:count.',
      }),
    );
    const { pairs } = await platform.init();
    expect(pairs.filter(({ action }) => action !== 'keep')).toMatchObject([{ target: 'ocr', action: 'update' }]);
    expect(await scopes()).toEqual([['documents:read', 'pages:count']]);
    expect(platform.variables('auth').NODE_TARGETS).toBe('command-orchestration,speech-to-text');
    expect(actions(await platform.init())).toEqual(['keep']);
    // A list says nothing about scopes: the restriction stays.
    platform.changeMap(({ services }) => (services.recipes!.calls = ['auth', 'ocr']));
    expect(actions(await platform.init())).toEqual(['keep']);
    expect(await scopes()).toEqual([['documents:read', 'pages:count']]);
    platform.changeMap(({ services }) => (services.recipes!.calls = { auth: null, ocr: null }));
    await platform.init();
    expect(await scopes()).toEqual([null]);
    expect(platform.variables('recipes').OCR_APP_KEY).toBe(OCR_APP_KEY);
  });

  it('issues keys with the life that auth.env says', async () => {
    platform.edit('auth', (text) => `${text}APP_KEY_DAYS=30\n`);
    platform.changeMap(({ services }) => (services.recipes!.calls = ['auth', 'ocr', 'logging']));
    await platform.init();
    const rows = await platform.database.query(
      `SELECT target, life_days FROM app_credentials
       WHERE caller = 'recipes' AND target <> 'auth' AND revoked_at IS NULL ORDER BY target`,
    );
    expect(rows).toEqual([
      { target: 'logging', life_days: 30 },
      { target: 'ocr', life_days: null },
    ]);
  });

  describe('when a pair leaves the map', () => {
    beforeEach(() => platform.changeMap(({ services }) => (services.recipes!.calls = ['auth'])));

    it('reports the pair, and does not revoke its key', async () => {
      const { strays } = await platform.init();
      expect(strays).toEqual([{ caller: 'recipes', target: 'ocr', app_id: expect.any(String), revoked: false }]);
      expect(await platform.livePairs()).toEqual(SPECIFIED_PAIRS);
    });

    it('revokes only that pair with --prune', async () => {
      expect((await platform.init({ prune: true })).strays).toMatchObject([{ revoked: true }]);
      expect(await platform.livePairs()).toEqual(SPECIFIED_PAIRS.filter((pair) => pair !== 'recipes → ocr'));
      expect((await platform.init({ prune: true })).strays).toEqual([]);
    });

    it('returns when no replica has the key in its cache: after the longest lease that was announced', async () => {
      await platform.database.query(`INSERT INTO replica_leases (id, lease_ms) VALUES (gen_random_uuid(), 1000)`);
      const startedAt = performance.now();
      await platform.init({ prune: true });
      expect(performance.now() - startedAt).toBeGreaterThanOrEqual(1_020);
      await platform.database.query('DELETE FROM replica_leases');
    });
  });

  it('--dry-run changes nothing on a platform that needs repair, and reports what init then does', async () => {
    platform.edit('ocr', () => '');
    platform.changeMap(({ services }) => (services.recipes!.calls = ['auth']));
    const before = await platform.state();
    const plan = await platform.init({ dryRun: true, prune: true });
    expect(await platform.state()).toEqual(before);
    expect(await platform.init({ prune: true })).toEqual({ ...plan, dry_run: false });
  });

  it('--dry-run reports the migrations of an earlier version and the pairs, and that keys cannot be compared yet', async () => {
    const reverted = await platform.revertToAppCredentials();
    const before = await platform.state();
    const plan = await platform.init({ dryRun: true, prune: true });
    expect(plan).toMatchObject({ migrations: reverted, strays: [] });
    expect(plan.pairs.map(({ caller, target }) => `${caller} → ${target}`).sort()).toEqual(SPECIFIED_PAIRS);
    expect(actions(plan)).toEqual(['unknown']);
    expect(plan.files.filter(({ changed }) => changed)).toEqual([]);
    expect(await platform.state()).toEqual(before);
  });

  it('migrates a database of an earlier version, then compares the keys', async () => {
    const reverted = await platform.revertToAppCredentials();
    const report = await platform.init();
    expect(report.migrations).toEqual(reverted);
    expect(actions(report)).toEqual(['keep']);
  });

  it('rotates no key for a file that it could not write', async () => {
    const keys = () => platform.database.query('SELECT id, key_digest FROM app_credentials ORDER BY id');
    const before = await keys();
    platform.edit('ocr', (text) => text.replace(/^AUTH_APP_KEY=.*$/m, ''));
    jest.spyOn(EnvFile.prototype, 'rehearseWrite').mockImplementationOnce(() => {
      throw Object.assign(new Error('EACCES'), { code: 'EACCES' });
    });
    await expect(platform.init()).rejects.toThrow(/ocr\.env is not complete/);
    expect(await keys()).toEqual(before);
  });

  it('names the new keys that are lost because their file could not be written in the end', async () => {
    platform.edit('ocr', (text) => text.replace(/^AUTH_APP_KEY=.*$/m, ''));
    jest.spyOn(EnvFile.prototype, 'write').mockImplementationOnce(() => {
      throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' });
    });
    await expect(platform.init()).rejects.toThrow(
      /The new keys of ocr → auth are lost; the old ones work for 24 hours/,
    );
  });

  it('refuses before any change when auth.env names a file for a secret that init writes', async () => {
    platform.edit('auth', (text) => text.replace(/^SECRET_KEY=/m, 'SECRET_KEY_FILE='));
    const before = readFileSync(platform.path('auth'), 'utf8');
    await expect(platform.init()).rejects.toThrow(/auth\.env sets SECRET_KEY_FILE.*remove SECRET_KEY_FILE/);
    expect(readFileSync(platform.path('auth'), 'utf8')).toBe(before);
    platform.edit('auth', (text) => text.replace('SECRET_KEY_FILE=', 'SECRET_KEY='));
  });

  it('reads DATABASE_URL from the file that auth.env names, and leaves it there', async () => {
    const file = `${platform.path('auth')}.url`;
    writeFileSync(file, `${platform.database.url}\n`);
    platform.edit('auth', (text) => text.replace(/^DATABASE_URL=.*$/m, `DATABASE_URL_FILE=${file}`));
    await platform.initWithoutUrl();
    expect(platform.variables('auth')).toMatchObject({ DATABASE_URL_FILE: file });
    expect(JSON.stringify(await platform.diagnose())).not.toContain('Not set');
    expect(platform.variables('auth')).not.toHaveProperty('DATABASE_URL');
  });
});

describe('platform-auth init before its first run', () => {
  beforeEach(async () => {
    platform = await OwnPlatform.create();
  });

  afterEach(() => platform.remove());

  it('reads DATABASE_URL from its own file, and keeps the rest of that file', async () => {
    mkdirSync(platform.envDir);
    const before = `# ours\nDATABASE_URL="${platform.database.url}" # the one\nLOG_LEVEL=debug\n`;
    writeFileSync(platform.path('auth'), before);
    await platform.initWithoutUrl();
    const after = readFileSync(platform.path('auth'), 'utf8');
    expect(after.slice(0, before.length)).toBe(before);
    expect(after.slice(before.length)).toMatch(
      /^SECRET_KEY=\S+\nMASTER_KEY=\S+\nAUDIT_SEAL_KEY=\S+\nADMIN_SET_PASSWORDS=refused\nADMIN_API_KEY=\S+\n$/,
    );
  });

  it('--dry-run changes nothing on an empty machine, and reports what it would do', async () => {
    const report = await platform.init({ dryRun: true });
    expect(report.pairs.map(({ caller, target }) => `${caller} → ${target}`).sort()).toEqual(SPECIFIED_PAIRS);
    expect(actions(report)).toEqual(['issue']);
    expect(report.migrations.length).toBeGreaterThan(0);
    expect(existsSync(platform.envDir)).toBe(false);
    expect(await platform.database.query(`SELECT 1 FROM pg_tables WHERE schemaname = 'public'`)).toEqual([]);
  });

  it.each([
    ['a symbolic link', (path: string) => symlinkSync('/dev/null', path), /symbolic link/],
    ['a directory', (path: string) => mkdirSync(path), /is a directory/],
  ])('refuses %s before it issues a key', async (_, obstruct, expected) => {
    mkdirSync(platform.envDir);
    obstruct(platform.path('ocr'));
    await expect(platform.init()).rejects.toThrow(expected);
    expect(await platform.database.query(`SELECT 1 FROM pg_tables WHERE schemaname = 'public'`)).toEqual([]);
  });

  it('refuses a weak SECRET_KEY, without printing it', async () => {
    mkdirSync(platform.envDir);
    writeFileSync(platform.path('auth'), 'SECRET_KEY=changeme-changeme-changeme-changeme\n');
    const failure = await platform.init().catch((error: unknown) => String(error));
    expect(failure).toMatch(/SECRET_KEY in .*auth\.env looks like a placeholder/);
    expect(failure).not.toMatch(/changeme/);
  });

  it('revokes the keys that it issued for a file that cannot be written, and the rerun completes', async () => {
    await migrate(platform.database.url);
    const barrier = await platform.barrierAt('recipes', 'ocr');
    const failed = expect(platform.init()).rejects.toThrow(
      /recipes\.env is not complete: .* is a directory\.\n.*revoked again: recipes → auth, recipes → ocr/,
    );
    await barrier.reached();
    mkdirSync(platform.path('recipes'));
    await barrier.remove();
    await failed;
    const delivered = SPECIFIED_PAIRS.filter((pair) => /^(command-orchestration|ocr) /.test(pair));
    expect(await platform.livePairs()).toEqual(delivered);
    rmdirSync(platform.path('recipes'));
    const kept = platform.variables('ocr');
    await platform.init();
    expect(await platform.livePairs()).toEqual(SPECIFIED_PAIRS);
    expect(platform.variables('ocr')).toEqual(kept);
    expect(actions(await platform.init())).toEqual(['keep']);
  });

  it('runs one at a time', async () => {
    const reports = await Promise.all([platform.init(), platform.init(), platform.init()]);
    expect(reports.map(actions).flat().sort()).toEqual(['issue', 'keep', 'keep']);
    expect(await platform.rows()).toHaveLength(SPECIFIED_PAIRS.length);
    expect(actions(await platform.init())).toEqual(['keep']);
  });
});
