import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawnSync } from 'node:child_process';
import { Cleanup, InterruptedError } from '../../tools/cleanup.js';
import { claimPort } from '../../tools/claim-port.js';
import { isResponding, ServerProcess } from '../../tools/server-process.js';
import { fromRoot } from '../support/from-root.js';

describe('the cleanup of a tool', () => {
  let undone: string[];
  let cleanup: Cleanup;
  const undo = (name: string) => (): void => void undone.push(name);

  beforeEach(() => {
    undone = [];
    cleanup = new Cleanup();
  });

  it('runs in reverse order, and each step once', async () => {
    cleanup.defer(undo('folder'));
    await cleanup.acquire(
      () => Promise.resolve('server'),
      (name) => undone.push(name),
    );
    await cleanup.run();
    await cleanup.run();
    expect(undone).toEqual(['server', 'folder']);
  });

  it('continues after a failure and reports it', async () => {
    const failure = new Error('The server is gone.');
    const reported = jest.spyOn(console, 'error').mockImplementation(() => undefined);
    cleanup.defer(undo('folder'));
    cleanup.defer(() => {
      throw failure;
    });
    await cleanup.run();
    expect(undone).toEqual(['folder']);
    expect(reported).toHaveBeenCalledWith(expect.any(String), failure);
    reported.mockRestore();
  });

  it('refuses to start anything after it was closed', async () => {
    await cleanup.close();
    const start = jest.fn(() => Promise.resolve('server'));
    await expect(cleanup.acquire(start, undo('server'))).rejects.toThrow(InterruptedError);
    expect(start).not.toHaveBeenCalled();
  });

  it('waits for pending starts when it is closed, and undoes them', async () => {
    let started: (name: string) => void = () => undefined;
    const starting = new Promise<string>((resolve) => (started = resolve));
    const acquired = cleanup.acquire(() => starting, undo('server'));
    const closed = cleanup.close().then(undo('closed'));
    started('server');
    await acquired;
    await closed;
    expect(undone).toEqual(['server', 'closed']);
  });
});

const SERVER = `
  import { createServer } from 'node:http';
  process.on('SIGTERM', () => process.exit(7));
  createServer((request, response) => response.end()).listen(Number(process.env.PORT), '127.0.0.1');`;

describe('a server process', () => {
  let folder: string;
  let cleanup: Cleanup;

  const serverOf = async (code: string): Promise<ServerProcess> => {
    const script = join(folder, 'server.mjs');
    writeFileSync(script, code);
    return new ServerProcess(await claimPort(), { cleanup, script });
  };

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'platform-auth-tools-'));
    cleanup = new Cleanup();
  });
  afterEach(async () => {
    await cleanup.close();
    rmSync(folder, { recursive: true });
  });

  it('can be stopped and started again on the same port', async () => {
    const server = await serverOf(SERVER);
    const { pid } = await server.start();
    expect(await server.stop()).toBe(7);
    expect(await isResponding(server.url)).toBe(false);
    await server.start();
    expect(server.pid).not.toBe(pid);
    expect(await isResponding(server.url)).toBe(true);
  });

  it('is killed by the cleanup, and cannot be started afterwards', async () => {
    const server = await serverOf(SERVER);
    await server.start();
    await cleanup.close();
    expect(server.hasExited).toBe(true);
    await expect(server.start()).rejects.toThrow(InterruptedError);
  });

  it('reports a program that exits before it is ready', async () => {
    const server = await serverOf('process.exit(3);');
    await expect(server.start()).rejects.toThrow(/server\.mjs exited before it was ready/);
  });
});

describe('tools/jest.ts', () => {
  /** @returns the compiled files that it would run */
  const listTests = (...paths: string[]): string[] => {
    const words = ['--no-warnings', 'dist/tools/jest.js', '--listTests', ...paths];
    const { stdout } = spawnSync(process.execPath, words, { cwd: fromRoot('.'), encoding: 'utf8' });
    return stdout.trimEnd().split('\n').sort();
  };
  const compiled = (name: string): string => fromRoot(join('dist/test', `${name}.spec.js`));

  it('takes the path of a test file as a failure prints it, compiled, without its ending, and absolute', () => {
    const paths = ['test/tools/removals.spec.ts', 'dist/test/tools/steps.spec.js', 'test/fuzz/judge'];
    expect(listTests(...paths, fromRoot('test/docs/links.spec.ts'))).toEqual(
      ['docs/links', 'fuzz/judge', 'tools/removals', 'tools/steps'].map(compiled),
    );
  });

  it('takes the path of a test of processes', () => {
    expect(listTests('test/bootstrap/stop.process.spec.ts')).toEqual([compiled('bootstrap/stop.process')]);
  });
});

const SCRIPT = fromRoot('tools/build-if-changed.js');

const PROGRAMS = ['dist/service/main.js', 'dist/service/platform-auth.js', 'dist/docs/openapi.json'];

const OTHER_SOURCES = [
  'packages/lease/index.ts',
  'test/a.spec.ts',
  'tools/build.js',
  'ormconfig.ts',
  'package-lock.json',
  '.swcrc',
];

describe('tools/build.js', () => {
  it('says one sentence when it cannot write', () => {
    const folder = mkdtempSync(join(tmpdir(), 'platform-auth-build-'));
    cpSync(fromRoot('tools/build.js'), join(folder, 'tools/build.js'));
    symlinkSync(fromRoot('node_modules'), join(folder, 'node_modules'));
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
    writeFileSync(join(folder, 'dist'), '');
    const { status, stderr } = spawnSync(process.execPath, [join(folder, 'tools/build.js')], { encoding: 'utf8' });
    rmSync(folder, { recursive: true });
    expect(stderr).toMatch(/^\S+dist cannot be written \(EEXIST\): [^\n]+\n$/);
    expect(status).toBe(1);
  });
});

/** Runs the build without npm's own start, which costs several times as much. */
const NPM = `#!/bin/sh
[ "$1 $2 $3" = 'run --silent build' ] || exit 9
shift 3
[ "$1" != -- ] || shift
exec node build.js "$@"
`;

/** A checkout whose build only notes that it ran, and with which flags. */
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
  const run = ({ withNpm = false, flags = [] as string[] } = {}): {
    isBuilt: boolean;
    status: number | null;
    said: string;
  } => {
    rmSync(join(folder, 'built'), { force: true });
    const PATH = withNpm ? process.env.PATH : `${join(folder, 'bin')}:${process.env.PATH}`;
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [join(folder, 'tools/build-if-changed.js'), ...flags],
      { env: { ...process.env, PATH }, encoding: 'utf8' },
    );
    expect(stdout).toBe('');
    return { isBuilt: existsSync(join(folder, 'built')), status, said: stderr };
  };

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'platform-auth-build-'));
    chmodSync(folder, 0o755);
    for (const name of ['tools', 'node_modules']) mkdirSync(join(folder, name));
    cpSync(SCRIPT, join(folder, 'tools/build-if-changed.js'));
    for (const path of ['src/main.ts', 'src/users/users.ts', ...OTHER_SOURCES]) write(path);
    const lines = PROGRAMS.map(
      (path) => `mkdirSync('${join(path, '..')}', { recursive: true }); writeFileSync('${path}', '');`,
    );
    write('bin/npm', NPM);
    chmodSync(join(folder, 'bin/npm'), 0o755);
    setBuild(
      `import { mkdirSync, writeFileSync } from 'node:fs'; writeFileSync('built', process.argv.slice(2).join()); ${lines.join(' ')}`,
    );
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('builds the first time, says so, and is silent the second time', () => {
    const first = run({ withNpm: true });
    expect(first).toMatchObject({ isBuilt: true, status: 0 });
    expect(first.said).toMatch(/^Building the service: only the first time …\n[^]*Built in \d+\.\d s\.\n$/);
    expect(run()).toEqual({ isBuilt: false, status: 0, said: '' });
  });

  it('says what to type when the packages are not installed', () => {
    rmSync(join(folder, 'node_modules'), { recursive: true });
    expect(run()).toEqual({ isBuilt: false, status: 1, said: 'The packages are not installed. Type: npm ci\n' });
  });

  it('builds again when a source has changed, was added, deleted, or replaced by an older one of the same size', () => {
    run();
    for (const path of ['src/users/users.ts', 'src/users/new.ts', ...OTHER_SOURCES]) {
      write(path, 'changed');
      expect({ path, ...run() }).toMatchObject({ path, isBuilt: true, said: expect.stringContaining('has changed') });
    }
    expect(run().isBuilt).toBe(false);
    rmSync(join(folder, 'src/users/users.ts'));
    expect(run().isBuilt).toBe(true);
    utimesSync(join(folder, 'src/main.ts'), 1, 1);
    expect(run().isBuilt).toBe(true);
  });

  it('compiles only the programs beside the service when none of its own sources has changed', () => {
    run();
    write('test/a.spec.ts', 'changed');
    expect(run({ withNpm: true }).isBuilt).toBe(true);
    expect(readFileSync(join(folder, 'built'), 'utf8')).toBe('--beside');
    write('test/a.spec.ts', 'changed again');
    write('src/main.ts', 'changed');
    expect(run().isBuilt).toBe(true);
    expect(readFileSync(join(folder, 'built'), 'utf8')).toBe('');
  });

  it('does not build again for what tests write', () => {
    run();
    for (const path of ['test/clients/generated/client.ts', 'clients/typescript/dist/a.ts', 'clients/report.json'])
      write(path);
    expect(run().isBuilt).toBe(false);
  });

  it('builds the verifier of TypeScript only when it is asked to, and when that is missing or has changed', () => {
    const build = `import { mkdirSync, writeFileSync } from 'node:fs'; mkdirSync('clients/typescript/dist', { recursive: true }); writeFileSync('clients/typescript/dist/index.js', '')`;
    const runWithVerifier = (): string => {
      rmSync(join(folder, 'clients/typescript/dist'), { recursive: true, force: true });
      return run({ flags: ['--verifier'] }).said;
    };
    write('clients/typescript/build.js', build);
    run();
    expect(existsSync(join(folder, 'clients/typescript/dist'))).toBe(false);
    const isBuilding = expect.stringContaining('Building the verifier for TypeScript …');
    expect(runWithVerifier()).toEqual(isBuilding);
    expect(run({ flags: ['--verifier'] }).said).toBe('');
    expect(runWithVerifier()).toEqual(isBuilding);
    write('clients/typescript/src/index.ts', 'changed');
    expect(run({ flags: ['--verifier'] }).said).toEqual(isBuilding);
    write('clients/typescript/build.js', 'process.exit(3)');
    expect(run({ flags: ['--verifier'] })).toMatchObject({ status: 3, said: isBuilding });
  });

  it('builds again when a program is missing', () => {
    run();
    for (const path of PROGRAMS) {
      rmSync(join(folder, path));
      expect({ path, ...run() }).toMatchObject({ path, isBuilt: true });
    }
  });

  it('fails when the build fails, and builds again the next time', () => {
    setBuild(`process.exit(3)`);
    expect(run()).toMatchObject({ status: 3, isBuilt: false });
    expect(run()).toMatchObject({ status: 3, isBuilt: false });
  });
});
