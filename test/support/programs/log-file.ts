import { join, relative, sep } from 'node:path';
import { fromRoot } from '../from-root.js';

/** The reporter of the run sets it (reporter.ts), and the workers of Jest inherit it. */
export const LOG_FOLDER_VARIABLE = 'TEST_LOG_FOLDER';

/** Read when the module is loaded, because a test may replace the environment of its process. */
const folder = process.env[LOG_FOLDER_VARIABLE];

/** @returns the file in the folder for the log lines of the services that a test file starts */
export function logFileIn(folder: string, testPath: string): string {
  return join(folder, `${relative(fromRoot('.'), testPath).replaceAll(sep, '-')}.log`);
}

/** @returns the same file, for a worker of Jest; undefined in a process that no reporter started */
export function logFileOf(testPath: string): string | undefined {
  return folder === undefined ? undefined : logFileIn(folder, testPath);
}
