import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import JestRuntime from 'jest-runtime';

const require = createRequire(import.meta.url);
let imports = 0;

/**
 * Loads the modules of tests as Node.js does, once for all test files of a worker. Jest's own runtime loads Nest, TypeORM and
 * the service anew for each file. In pairs, with two workers: 24 s instead of 12 for test/foundation/http, 43 instead of 26 for
 * test/domain/users, tokens, audit and test/docs; and it needs --experimental-vm-modules.
 */
export default class NativeRuntime extends JestRuntime {
  requireInternalModule(path) {
    if (path.includes('jest-circus')) {
      // The tests of a file are state of this module and of its event handlers: each file begins without any.
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
    // The environment has set them for the process.
  }
}
