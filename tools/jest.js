// Runs Jest over the compiled tests. A path may be written as a failure prints it (test/api/auth/refresh.spec.ts), as it is
// compiled (dist/test/api/auth/refresh.spec.js), or without its ending.
import { join, relative } from 'node:path';
import { run } from 'jest';

const ROOT = join(import.meta.dirname, '..');
/** What jest.config.js leaves to `npm run test:process`. */
const IS_PROCESS_TEST = /\.process\.spec(\.[jt]s)?$/;
/** A named file of jest.process.config.js runs without a word about the configuration. */
const WITH_PROCESS_TESTS = ['--testPathIgnorePatterns=/node_modules/', '--maxWorkers=3'];

/** @returns the path of the compiled file that is meant by the path of a test file; any other word as it is */
function toCompiled(word) {
  if (!/^[^-].*\.spec\.[jt]s$/.test(word)) return word;
  const path = relative(ROOT, word).replace(/^dist[\\/]/, '');
  return join('dist', path).replace(/\.ts$/, '.js');
}

const words = process.argv.slice(2);
const namesProcessTest = words.some((word) => IS_PROCESS_TEST.test(word));
const isConfigured = words.some((word) => word.startsWith('--config'));
await run([...(namesProcessTest && !isConfigured ? WITH_PROCESS_TESTS : []), ...words.map(toCompiled)], ROOT);
