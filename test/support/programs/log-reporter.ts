import { existsSync, readFileSync, rmSync } from 'node:fs';
import { logFileOf, logFolder } from './log-file.js';

const MAX_LINES = 40;

/** Shows what the services logged when a test of a file failed; a green run prints no log lines and leaves no files. */
export default class LogReporter {
  onTestResult({ path }: { path: string }, { numFailingTests }: { numFailingTests: number }): void {
    const file = logFileOf(path);
    if (numFailingTests === 0 || !existsSync(file)) return;
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
    console.error([`The last log lines (all: ${file}):`, ...lines.slice(-MAX_LINES)].join('\n'));
  }

  onRunComplete(_contexts: unknown, { numFailedTests }: { numFailedTests: number }): void {
    if (numFailedTests === 0) rmSync(logFolder(), { recursive: true, force: true });
  }
}
