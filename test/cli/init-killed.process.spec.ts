import { existsSync } from 'node:fs';
import { Cli } from '../support/cli.js';
import { TestApp } from '../support/test-app.js';
import { actions, OwnPlatform, SPECIFIED_PAIRS } from './own-platform.js';
import { fromRoot } from '../support/from-root.js';

describe('platform-auth init as a process', () => {
  let platform: OwnPlatform;

  beforeEach(async () => {
    platform = await OwnPlatform.create();
  });

  afterEach(async () => {
    await platform.remove();
  });

  const parameters = (...more: string[]): string[] => [
    ...['init', '--map', platform.mapPath, '--env-dir', platform.envDir],
    ...more,
  ];
  const start = (...words: string[]) => {
    const variables = { NODE_ENV: 'production', DATABASE_URL: platform.database.url };
    return new Cli('http://127.0.0.1:9', variables, fromRoot('.')).start(...words);
  };
  const run = async (words: string[]) => start(...words).ended;

  const killAt = async (caller: string, target: string): Promise<void> => {
    const barrier = await platform.barrierAt(caller, target);
    const child = start(...parameters());
    await barrier.reached();
    child.kill();
    await child.ended;
    await barrier.remove();
  };

  const isWhole = async (): Promise<void> => {
    expect(await platform.livePairs()).toEqual(SPECIFIED_PAIRS);
    const app = await TestApp.start({ database: platform.database });
    for (const pair of SPECIFIED_PAIRS) {
      const [caller, target] = pair.split(' → ') as [string, string];
      await app.validateApp(platform.headers(caller, target), { target }).expect(200);
    }
    await app.stop();
    expect(actions(await platform.init())).toEqual(['keep']);
  };

  it('can be completed by a rerun after it was killed between two credentials of one file', async () => {
    await run(['migrate']);
    await killAt('recipes', 'ocr');
    // The row exists and its key is lost: the file that should hold it was never written.
    expect(await platform.livePairs()).toContain('recipes → auth');
    expect(existsSync(platform.path('recipes'))).toBe(false);
    const { code, stdout } = await run(parameters('--json'));
    expect(code).toBe(0);
    const { pairs } = JSON.parse(stdout) as Awaited<ReturnType<typeof platform.init>>;
    const action = (caller: string, target: string) =>
      pairs.find((pair) => pair.caller === caller && pair.target === target)?.action;
    expect(action('recipes', 'auth')).toBe('rotate');
    expect(action('ocr', 'auth')).toBe('keep');
    await isWhole();
  });

  it('keeps the old keys working when it is killed while it replaces lost keys, and the rerun completes', async () => {
    await platform.init();
    const old = platform.headers('recipes', 'auth');
    platform.edit('recipes', () => '');
    await killAt('recipes', 'ocr');
    const app = await TestApp.start({ database: platform.database });
    await app.validateApp(old, { target: 'auth' }).expect(200);
    expect((await run(parameters())).code).toBe(0);
    await app.validateApp(old, { target: 'auth' }).expect(200);
    await app.stop();
    await isWhole();
  });

  it('--dry-run says that it compares no keys before the migrations', async () => {
    await platform.init();
    const reverted = await platform.revertToAppCredentials();
    const { code, stdout } = await run(parameters('--dry-run'));
    expect(code).toBe(0);
    expect(stdout).toMatch(/recipes +│ ocr +│ unknown[^]*cannot be compared/);
    expect(stdout).toContain(`Migrations to apply: ${reverted.join(', ')}`);
  });

  it('exits with 0 when done, 1 when refused, 2 on wrong usage', async () => {
    const done = await run(parameters());
    // A slow machine says on standard error what it waits for.
    expect(done.code).toBe(0);
    expect(done.stdout).toMatch(/Done\. Start the services, each with its file; then run doctor\.\n$/);
    platform.edit('ocr', () => '');
    expect((await run(parameters())).stdout).toMatch(/Done\. Restart the services whose files were written\.\n$/);
    platform.changeMap(({ services }) => delete services.auth);
    const refused = await run(parameters());
    expect(refused).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(/platform\.yaml:\d+ /) });
    expect(await run(['init', '--map', platform.mapPath])).toMatchObject({ code: 2, stdout: '' });
  });

  it('doctor exits with 1 when something is broken, and prints JSON with --json', async () => {
    await platform.init();
    const args = ['--json', 'doctor', '--map', platform.mapPath, '--env-dir', platform.envDir];
    const { code, stdout, stderr } = await run([...args, '--url', 'http://127.0.0.1:9']);
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toEqual({ findings: [expect.objectContaining({ severity: 'broken' })] });
    const lastLine = stderr.trim().split('\n').at(-1) ?? '';
    expect(JSON.parse(lastLine)).toEqual({ code: 'broken', message: 'Broken: 1.' });
  });
});
