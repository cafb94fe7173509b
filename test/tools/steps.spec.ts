import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fromRoot } from '../support/from-root.js';

const FLAKY = `
if [ -e "$0.ran" ]; then echo "2 passed, 0 failed, 1 skipped"; exit; fi
touch "$0.ran"
echo "FAIL test/a.spec.ts (1 of 3 files, 0.1 s)"
echo "1 passed, 1 failed"
exit 1`;

describe('.ci/steps.sh', () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'platform-auth-steps-'));
    writeFileSync(join(folder, 'good'), 'echo "3 passed, 0 failed"');
    writeFileSync(join(folder, 'flaky'), FLAKY);
    writeFileSync(join(folder, 'bad'), 'echo "5 passed, 1 failed"; exit 1');
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  /** @returns what two lanes and their end print */
  const run = (...secondLane: string[]): string[] => {
    const toStep = (name: string): string => `  step bash ${join(folder, name)}\n`;
    const toLane = (name: string, steps: string[]): string => `${name}() {\n${steps.map(toStep).join('')}}\n`;
    const lanes = toLane('one', ['good', 'flaky']) + toLane('two', secondLane);
    const script = `. ${fromRoot('.ci/steps.sh')}\n${lanes}beside one two\nrepeat_failed\nfinish || true`;
    return execFileSync('bash', ['-c', script], { encoding: 'utf8' }).trimEnd().split('\n');
  };

  it('says which step of how many a lane runs', () => {
    const steps = run('good').filter((line) => line.includes(' of 2: ') || line.includes(' of 1: '));
    expect(steps.map((line) => line.split('/')[0])).toEqual(
      expect.arrayContaining([
        '── one: step 1 of 2: bash ',
        '── one: step 2 of 2: bash ',
        '── two: step 1 of 1: bash ',
      ]),
    );
  });

  it('names a step as flaky that failed and then passed before the last line', () => {
    expect(run('good').slice(-4)).toEqual([
      expect.stringMatching(/^flaky: bash \S+\/flaky test\/a\.spec\.ts/),
      '1 flaky: failed beside other steps, and passed alone',
      '1 skipped',
      '9 passed, 0 failed',
    ]);
  });

  it('does not call a step flaky that failed twice', () => {
    const lines = run('bad');
    expect(lines.filter((line) => line.startsWith('flaky: '))).toHaveLength(1);
    expect(lines.at(-1)).toBe('16 passed, 1 failed');
  });

  it('gives a lane that is free the next function or script, each once, and counts one that ends early as a failure', () => {
    const path = (name: string): string => join(folder, name);
    const script = `. ${fromRoot('.ci/steps.sh')}
npm() { bash "${folder}/$2"; }
two() {
  step bash ${path('good')}
  step bash ${path('good')}
}
early() {
  step bash ${path('good')}
  exit 1
}
in_lanes 2 two good early bad good
finish || true`;
    const lines = execFileSync('bash', ['-c', script], { encoding: 'utf8' }).trimEnd().split('\n');
    expect(lines.filter((line) => line.includes(': step '))).toHaveLength(6);
    expect(lines.at(-1)).toBe('20 passed, 2 failed');
  });
});
