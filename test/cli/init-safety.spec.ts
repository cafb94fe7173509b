import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import type { InitRequest } from '../../src/cli/platform/init.js';
import { eventually } from '../../tools/eventually.js';
import { migrate } from '../../src/foundation/database/migrate.js';
import { withServices } from '../../src/cli/database/database-services.js';
import { actions, OwnPlatform, SHIPPED_MAP, SPECIFIED_PAIRS, useCommands } from './own-platform.js';
import { LOCKS } from '../../src/foundation/database/locks.js';
import { holdWrites, endLockHolder } from '../support/row-lock.js';

const NOT_CONFIRMED = new Error('not confirmed');

const refuse = (asked: unknown[]) => (what: unknown) => {
  asked.push(what);
  return Promise.reject(NOT_CONFIRMED);
};

useCommands();

describe('platform-auth init on a platform in use', () => {
  let platform: OwnPlatform;

  beforeAll(async () => {
    platform = await OwnPlatform.create({ isEmpty: false });
  });

  // What the test before has changed is repaired.
  beforeEach(async () => {
    platform.changeMap(() => undefined, SHIPPED_MAP);
    await platform.init();
  });

  afterAll(() => platform.remove());

  it.each([
    ['a folder that does not exist', {}],
    ['a folder that does not exist, with --dry-run', { dryRun: true }],
    ['a folder that does not exist, with --prune', { prune: true }],
  ] satisfies [string, Partial<InitRequest>][])('refuses %s, and changes nothing', async (_, options) => {
    const before = await platform.state();
    const envDir = `${platform.envDir}-mistyped`;
    await expect(platform.init({ ...options, envDir })).rejects.toMatchObject({
      code: 'strange_env_dir',
      message: expect.stringMatching(
        /mistyped\/auth\.env does not exist.* 9 live app credentials.*Nothing was changed/,
      ),
    });
    expect(existsSync(envDir)).toBe(false);
    expect(await platform.state()).toEqual(before);
  });

  it('asks for --env-dir when the folder has no auth.env and DATABASE_URL is not set, and changes nothing', async () => {
    const envDir = `${platform.envDir}-mistyped`;
    await expect(platform.initWithoutUrl({ envDir })).rejects.toMatchObject({
      code: 'strange_env_dir',
      message: expect.stringMatching(
        /mistyped\/auth\.env does not exist, and DATABASE_URL is not set\. Is --env-dir right\?/,
      ),
    });
    expect(existsSync(envDir)).toBe(false);
  });

  it('refuses a strange folder before it applies migrations', async () => {
    const reverted = await platform.revertToAppCredentials();
    rmSync(platform.path('auth'));
    await expect(platform.init()).rejects.toMatchObject({ code: 'strange_env_dir' });
    writeFileSync(platform.path('auth'), `SECRET_KEY=${platform.variables('recipes').SECRET_KEY!}\n`);
    expect((await platform.init({ dryRun: true })).migrations).toEqual(reverted);
  });

  it('asks before it rotates keys of several services, and changes nothing when that is not confirmed', async () => {
    for (const name of ['ocr', 'recipes']) platform.edit(name, () => '');
    const [before, asked] = [await platform.state(), [] as string[]];
    await expect(platform.init({ confirm: refuse(asked) })).rejects.toBe(NOT_CONFIRMED);
    expect(asked).toEqual([expect.stringContaining('rotate the live keys of 2 services (ocr, recipes)')]);
    expect(await platform.state()).toEqual(before);
    expect(actions(await platform.init()).sort()).toEqual(['keep', 'rotate']);
  });

  it('asks before it makes a new SECRET_KEY', async () => {
    const asked: string[] = [];
    platform.edit('auth', (text) => text.replace(/^SECRET_KEY=.*\n/m, ''));
    await expect(platform.init({ confirm: refuse(asked) })).rejects.toBe(NOT_CONFIRMED);
    expect(asked).toEqual([expect.stringContaining('make a new SECRET_KEY')]);
  });

  it('asks before --prune revokes, and names the pairs', async () => {
    platform.changeMap(({ services }) => (services.recipes!.calls = ['auth']));
    const asked: string[] = [];
    await expect(platform.init({ prune: true, confirm: refuse(asked) })).rejects.toBe(NOT_CONFIRMED);
    expect(asked).toEqual([expect.stringContaining('revoke permanently: recipes → ocr')]);
    expect(await platform.livePairs()).toEqual(SPECIFIED_PAIRS);
  });

  it('does not ask to repair one service, nor for a plan', async () => {
    const asked: string[] = [];
    platform.edit('ocr', () => '');
    await platform.init({ confirm: refuse(asked) });
    for (const name of ['ocr', 'recipes']) platform.edit(name, () => '');
    await platform.init({ dryRun: true, confirm: refuse(asked) });
    expect(asked).toEqual([]);
  });

  it('accepts a new folder once every credential is revoked', async () => {
    await platform.database.query('UPDATE app_credentials SET revoked_at = now()');
    const envDir = `${platform.envDir}-new`;
    expect(actions(await platform.init({ envDir }))).toEqual(['issue']);
    expect(readdirSync(envDir)).toContain('auth.env');
  });

  it('can be repeated after a first run that was interrupted at the first credential of this service', async () => {
    const machine = await OwnPlatform.create();
    machine.changeMap(({ services }) => (services.auth!.calls = ['logging']));
    await migrate(machine.database.url);
    const barrier = await machine.barrierAt('auth', 'logging');
    const failed = expect(machine.init()).rejects.toThrow(/auth\.env is not complete/);
    await barrier.reached();
    machine.edit('auth', (text) => `${text}# edited meanwhile\n`);
    await barrier.remove();
    await failed;
    expect(actions(await machine.init())).toEqual(['issue']);
    await machine.remove();
  });
});

describe('the application context of a command', () => {
  it('opens no connection besides its pool, and none is left after it', async () => {
    const platform = await OwnPlatform.create();
    await platform.init();
    const connections = async (): Promise<string[]> => {
      const rows = await platform.database.query<{ name: string }>(
        `SELECT application_name AS name FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE 'platform-auth%'`,
      );
      return rows.map(({ name }) => name);
    };
    const during = await withServices({ DATABASE_URL: platform.database.url }, async ({ credentials }) => {
      await credentials.listLiveAppCredentials();
      return connections();
    });
    expect(new Set(during)).toEqual(new Set(['platform-auth']));
    // PostgreSQL ends a session after the client has hung up.
    await eventually('none is left', async () => (await connections()).length === 0);
    await platform.remove();
  });
});

describe('platform-auth init that loses its advisory lock', () => {
  it('issues no more keys, says why, and the rerun completes', async () => {
    const platform = await OwnPlatform.create({ isEmpty: false });
    const { database } = platform;
    const barrier = await holdWrites(database, 'app_credentials');
    const outcome = platform.init().catch((error: unknown) => error);
    await barrier.reached();
    await endLockHolder(database, LOCKS.init);
    await barrier.release();
    expect(await outcome).toMatchObject({ message: expect.stringContaining('the lock with it') });
    expect((await platform.livePairs()).length).toBeLessThanOrEqual(1);
    await platform.init();
    expect(await platform.livePairs()).toEqual(SPECIFIED_PAIRS);
    await platform.remove();
  });
});
