import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LOG_FOLDER_VARIABLE, logFileIn } from './log-file.js';

const MAX_LINES = 40;

/**
 * Makes the folder for the log files of one run before the workers start, and removes that one folder after a green run.
 * Shows what the services logged when a test of a file failed.
 */
export default class LogReporter {
  private folder?: string;

  onRunStart(): void {
    this.folder = mkdtempSync(join(tmpdir(), 'platform-auth-test-logs-'));
    process.env[LOG_FOLDER_VARIABLE] = this.folder;
  }

  onTestResult({ path }: { path: string }, { numFailingTests }: { numFailingTests: number }): void {
    if (numFailingTests === 0 || this.folder === undefined) return;
    const file = logFileIn(this.folder, path);
    if (!existsSync(file)) return;
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
    console.error([`The last log lines (all: ${file}):`, ...lines.slice(-MAX_LINES)].join('\n'));
  }

  onRunComplete(_contexts: unknown, { numFailedTests }: { numFailedTests: number }): void {
    if (numFailedTests === 0 && this.folder !== undefined) rmSync(this.folder, { recursive: true, force: true });
  }
}
