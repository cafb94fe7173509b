import asyncHooks, { AsyncLocalStorage } from 'node:async_hooks';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import JestRuntime from 'jest-runtime';

const require = createRequire(import.meta.url);
let imports = 0;

/**
 * Shared by all copies of jest-circus. Each would make its own, and Node.js 20 slows every promise of the process for
 * each storage that was ever used: an await takes ten times as long with 25 of them as with one.
 */
const testContext = new AsyncLocalStorage();

/** `new` returns the shared storage, because a constructor may return another object. */
function SharedStorage() {
  return testContext;
}

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
      return requireWithSharedStorage(path);
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

function requireWithSharedStorage(path) {
  asyncHooks.AsyncLocalStorage = SharedStorage;
  try {
    return require(path);
  } finally {
    asyncHooks.AsyncLocalStorage = AsyncLocalStorage;
  }
}
