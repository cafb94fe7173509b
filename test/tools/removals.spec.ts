import { spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fromRoot } from '../support/from-root.js';

const JEST = ['--no-warnings', 'node_modules/jest/bin/jest.js'];

describe('what removes files', () => {
  let folder: string;
  let canary: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'platform-auth-removals-'));
    canary = join(folder, 'canary');
    writeFileSync(canary, 'alive');
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  /** Runs a program with a temporary directory that holds nothing but a canary. @returns its exit code and its output */
  function run(...parameters: string[]): { status: number | null; output: string } {
    const path = join(folder, 'output');
    const file = openSync(path, 'w');
    const { status } = spawnSync(process.execPath, parameters, {
      cwd: fromRoot('.'),
      env: { PATH: process.env.PATH, TMPDIR: folder, TEST_DATABASE_URL: process.env.TEST_DATABASE_URL },
      stdio: ['ignore', file, file],
    });
    closeSync(file);
    return { status, output: readFileSync(path, 'utf8') };
  }

  it.each([
    { flags: [], code: 1 },
    { flags: ['--passWithNoTests'], code: 0 },
  ])('keeps the temporary directory when no test file matches ($flags)', ({ flags, code }) => {
    const { status, output } = run(...JEST, 'matches-no-file', ...flags);
    expect(output).toContain('No tests found');
    expect(status).toBe(code);
    expect(readdirSync(folder)).toContain('canary');
  });

  it('removes the folders of command lines when their test file ends', () => {
    const { status, output } = run(...JEST, 'dist/test/cli/dev.spec.js');
    expect({ status, output }).toEqual({ status: 0, output: expect.stringContaining('PASS') });
    expect(readdirSync(folder).filter((name) => name.startsWith('platform-auth-cli-'))).toEqual([]);
  });

  it.each(['dist/tools/release-clients.js', 'clients/typescript/build.js'])(
    'refuses a folder that holds something (%s)',
    (program) => {
      const { status, output } = run(program, folder);
      expect(output).toContain('is not empty');
      expect(status).toBe(1);
      expect(readFileSync(canary, 'utf8')).toBe('alive');
    },
  );
});
