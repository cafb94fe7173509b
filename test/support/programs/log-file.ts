import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, sep } from 'node:path';

/** Makes the folder for the log files of one test run. The workers of Jest inherit its name. */
export function prepareLogFolder(): void {
  process.env.TEST_LOG_FOLDER = mkdtempSync(join(tmpdir(), 'platform-auth-test-logs-'));
}

export function logFolder(): string {
  return process.env.TEST_LOG_FOLDER ?? tmpdir();
}

/** @returns the file for the log lines of the services that a test file starts */
export function logFileOf(testPath: string): string {
  return join(logFolder(), `${relative(process.cwd(), testPath).replaceAll(sep, '-')}.log`);
}
