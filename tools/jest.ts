// Runs Jest over the compiled tests. A path may be that of the source (test/api/auth/refresh.spec.ts), as failures
// print it, that of the compiled file (dist/test/api/auth/refresh.spec.js), or either without its ending.
import { join, relative } from 'node:path';
import { run } from 'jest';

const ROOT = join(import.meta.dirname, '../..');
/** jest.config.js leaves these tests to `npm run test:process`. */
const IS_PROCESS_TEST = /\.process\.spec(\.[jt]s)?$/;
/** With these flags jest.config.js also runs a process test that is named on the command line. */
const WITH_PROCESS_TESTS = ['--testPathIgnorePatterns=/node_modules/', '--maxWorkers=3'];

/** @returns the path of the compiled file for the path of a test file; any other word as it is */
function toCompiled(word: string): string {
  if (!/^[^-].*\.spec\.[jt]s$/.test(word)) return word;
  const path = relative(ROOT, word).replace(/^dist[\\/]/, '');
  return join('dist', path).replace(/\.ts$/, '.js');
}

const words = process.argv.slice(2);
const namesProcessTest = words.some((word) => IS_PROCESS_TEST.test(word));
const isConfigured = words.some((word) => word.startsWith('--config'));
await run([...(namesProcessTest && !isConfigured ? WITH_PROCESS_TESTS : []), ...words.map(toCompiled)], ROOT);
