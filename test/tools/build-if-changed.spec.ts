import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fromRoot } from '../support/from-root.js';

const SCRIPT = fromRoot('tools/build-if-changed.js');
const PROGRAMS = ['dist/service/main.js', 'dist/service/platform-auth.js'];
const OTHER_SOURCES = ['tools/build.js', 'ormconfig.ts', 'package-lock.json', '.swcrc'];

/** A checkout whose build only notes that it ran. */
describe('tools/build-if-changed.js', () => {
  let folder: string;

  const write = (path: string, text = ''): void => {
    mkdirSync(join(folder, path, '..'), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  const setBuild = (script: string): void => {
    write('package.json', JSON.stringify({ type: 'module', scripts: { build: 'node build.js' } }));
    write('build.js', script);
  };

  /** @returns whether it built, and what it said */
  const run = (): { isBuilt: boolean; status: number | null; said: string } => {
    rmSync(join(folder, 'built'), { force: true });
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(folder, 'tools/build-if-changed.js')], {
      encoding: 'utf8',
    });
    expect(stdout).toBe('');
    return { isBuilt: existsSync(join(folder, 'built')), status, said: stderr };
  };

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'platform-auth-build-'));
    chmodSync(folder, 0o755);
    mkdirSync(join(folder, 'tools'));
    cpSync(SCRIPT, join(folder, 'tools/build-if-changed.js'));
    for (const path of ['src/main.ts', 'src/users/users.ts', ...OTHER_SOURCES]) write(path);
    const lines = PROGRAMS.map(
      (path) => `mkdirSync('${join(path, '..')}', { recursive: true }); writeFileSync('${path}', '');`,
    );
    setBuild(`import { mkdirSync, writeFileSync } from 'node:fs'; writeFileSync('built', ''); ${lines.join(' ')}`);
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('builds the first time, says so, and is silent the second time', () => {
    const first = run();
    expect(first).toMatchObject({ isBuilt: true, status: 0 });
    expect(first.said).toMatch(/^Building the service: only the first time …\n[^]*Built in \d+\.\d s\.\n$/);
    expect(run()).toEqual({ isBuilt: false, status: 0, said: '' });
  });

  it.each(['src/users/users.ts', 'src/users/new.ts', ...OTHER_SOURCES])('builds again when %s has changed', (path) => {
    run();
    write(path, 'changed');
    expect(run()).toMatchObject({ isBuilt: true, said: expect.stringContaining('a source has changed') });
    expect(run().isBuilt).toBe(false);
  });

  it('builds again when a source was deleted, or replaced by an older one of the same size', () => {
    run();
    rmSync(join(folder, 'src/users/users.ts'));
    expect(run().isBuilt).toBe(true);
    utimesSync(join(folder, 'src/main.ts'), 1, 1);
    expect(run().isBuilt).toBe(true);
  });

  it.each(PROGRAMS)('builds again when %s is missing', (path) => {
    run();
    rmSync(join(folder, path));
    expect(run().isBuilt).toBe(true);
  });

  it('fails when the build fails, and builds again the next time', () => {
    setBuild(`process.exit(3)`);
    expect(run()).toMatchObject({ status: 3, isBuilt: false });
    expect(run()).toMatchObject({ status: 3, isBuilt: false });
  });
});
