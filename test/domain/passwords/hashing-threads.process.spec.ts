import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fromRoot } from '../../support/from-root.js';
import { endAll, ServiceProcess } from '../../support/service-process.js';
import { VARIABLES } from '../../support/settings.js';
import { useTestDatabase } from '../../support/test-database.js';
import { problems } from '../../../src/foundation/problems/problems.js';

const NOBODY = 65_534;
/** The limit of processes binds no thread of root. */
const unprivileged = process.getuid?.() === 0 ? NOBODY : process.getuid?.();
const canReadService = spawnSync(process.execPath, ['--check', fromRoot('dist/service/main.js')], {
  uid: unprivileged,
}).status;

describe('a login for which no thread can be made', () => {
  const database = useTestDatabase();
  const folder = mkdtempSync(join(tmpdir(), 'pa-upgraded-'));
  const variables = () => ({ ...VARIABLES, DATABASE_URL: database.url, LOG_LEVEL: 'warn' });

  afterEach(endAll);
  afterAll(() => rmSync(folder, { recursive: true }));

  /** @returns the status of a login, and the code of its problem */
  const logIn = async (service: ServiceProcess): Promise<unknown[]> => {
    const answer = await fetch(`${service.url}/api/v0/auth/login`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ email: 'alice@example.org', password: 'not her passphrase' }),
    });
    const { code } = (await answer.json()) as { code: string };
    return [answer.status, code, answer.headers.get('retry-after')];
  };
  const refused = [401, problems.invalidCredentials.code, null];
  const unavailable = [503, problems.hashingBusy.code, '2'];

  /** @param code of the error in the log, for the operator */
  const expectOnlyLoginsToFail = async (service: ServiceProcess, code: string): Promise<void> => {
    for (const expected of [unavailable, unavailable]) expect(await logIn(service)).toEqual(expected);
    expect(await service.status('/health')).toBe(200);
    const line = { level: 50, msg: problems.hashingBusy.code, error: expect.objectContaining({ code }) as object };
    expect(service.lines.map((text) => JSON.parse(text) as object)).toEqual([
      expect.objectContaining(line),
      expect.objectContaining(line),
    ]);
  };

  it('is 503 while npm ci has removed the packages of the running service, and the next one is answered', async () => {
    cpSync(fromRoot('dist'), join(folder, 'dist'), {
      recursive: true,
      filter: (path) => !/dist\/(test|bench|chaos|fuzz|clients)$/.test(path),
    });
    cpSync(fromRoot('package.json'), join(folder, 'package.json'));
    const packages = join(folder, 'node_modules');
    mkdirSync(packages);
    for (const name of readdirSync(fromRoot('node_modules')))
      symlinkSync(fromRoot(`node_modules/${name}`), join(packages, name));
    const service = await (
      await ServiceProcess.spawn(variables(), folder, join(folder, 'dist/service/main.js'))
    ).ready();
    renameSync(packages, `${packages}.removed`);
    await expectOnlyLoginsToFail(service, 'ERR_MODULE_NOT_FOUND');
    renameSync(`${packages}.removed`, packages);
    expect(await logIn(service)).toEqual(refused);
    renameSync(packages, `${packages}.removed`);
    expect(await logIn(service)).toEqual(refused);
    expect(await service.stop()).toBe(0);
  });

  (canReadService === 0 ? it : it.skip)(
    'is 503 while the operating system refuses threads, and the next one is answered',
    async () => {
      const service = await (await ServiceProcess.spawn(variables(), '/', undefined, unprivileged)).ready();
      const prlimit = (...flags: string[]): string =>
        execFileSync('prlimit', [`--pid=${service.pid}`, ...flags], { uid: unprivileged, encoding: 'utf8' }).trim();
      const highest = prlimit('--nproc', '--raw', '--noheadings', '--output=HARD');
      prlimit('--nproc=1:');
      await expectOnlyLoginsToFail(service, 'ERR_WORKER_INIT_FAILED');
      prlimit(`--nproc=${highest}:`);
      expect(await logIn(service)).toEqual(refused);
      expect(await service.stop()).toBe(0);
    },
  );
});
