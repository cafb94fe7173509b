import { writeFileSync } from 'node:fs';
import { logFileOf } from './programs/log-file.js';

const lines: string[] = [];

/** How responses in the running test differed from the OpenAPI document. Any difference fails the test (each-file.ts). */
export const undocumented: string[] = [];

/** Keeps a line of a service until the test file ends. The reporter shows the lines of a file in which a test failed. */
export function recordLogLine(line: string): void {
  lines.push(line);
}

export function writeRunLog(): void {
  const file = logFileOf(expect.getState().testPath!);
  const text = `${lines.splice(0).join('\n')}\n`;
  if (file !== undefined) writeFileSync(file, text);
}
