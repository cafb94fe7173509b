import { writeFileSync } from 'node:fs';
import { logFileOf } from './programs/log-file.js';

const lines: string[] = [];

/** Keeps a line of a service until the test file ends. The reporter shows the lines of a file in which a test failed. */
export function recordLogLine(line: string): void {
  lines.push(line);
}

beforeEach(() => recordLogLine(`── ${expect.getState().currentTestName}`));

afterAll(() => {
  if (lines.length === 0) return;
  writeFileSync(logFileOf(expect.getState().testPath!), `${lines.join('\n')}\n`);
});
