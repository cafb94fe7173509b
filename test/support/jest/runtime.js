import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import JestRuntime from 'jest-runtime';

const require = createRequire(import.meta.url);
let imports = 0;

/**
 * Loads modules as Node.js does, once for all test files of a worker. Jest's own runtime loads Nest, TypeORM and the
 * service anew for each file, which costs 1.2 to 1.4 times the CPU, and needs --experimental-vm-modules.
 */
export default class NativeRuntime extends JestRuntime {
  requireInternalModule(path) {
    if (path.includes('jest-circus')) {
      // This module and its event handlers hold the tests of a file, so each file loads it anew.
      Reflect.deleteProperty(require.cache, path);
      Reflect.deleteProperty(globalThis, Symbol.for('EVENT_HANDLERS'));
    }
    return require(path);
  }

  unstable_shouldLoadAsEsm() {
    return true;
  }

  /** Loads a test file, or a file of `setupFilesAfterEnv`, which runs for each test file. */
  unstable_importModule(path) {
    imports += 1;
    return import(`${pathToFileURL(path).href}?${imports}`);
  }

  setGlobalsForRuntime() {
    // The environment has already set the globals for the process.
  }
}
