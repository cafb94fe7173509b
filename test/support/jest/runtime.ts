import asyncHooks, { AsyncLocalStorage } from 'node:async_hooks';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(import.meta.url);
// Its types declare another default export for `import`.
const { default: JestRuntime } = require('jest-runtime') as typeof import('jest-runtime');
let imports = 0;

/**
 * Shared by all copies of jest-circus. Each would make its own, and Node.js 20 slows every promise of the process for
 * each storage that was ever used: an await takes ten times as long with 25 of them as with one.
 */
const testContext = new AsyncLocalStorage<unknown>();

const SharedStorage = new Proxy(AsyncLocalStorage, { construct: () => testContext });

/**
 * Loads modules as Node.js does, once for all test files of a worker. Jest's own runtime loads Nest, TypeORM and the
 * service anew for each file, which costs 1.2 to 1.4 times the CPU, and needs --experimental-vm-modules.
 */
export default class NativeRuntime extends JestRuntime {
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- declared by Jest
  override requireInternalModule<T>(path: string): T {
    if (path.includes('jest-circus')) {
      // This module and its event handlers hold the tests of a file, so each file loads it anew.
      Reflect.deleteProperty(require.cache, path);
      Reflect.deleteProperty(globalThis, Symbol.for('EVENT_HANDLERS'));
      return requireWithSharedStorage(path) as T;
    }
    return require(path) as T;
  }

  override unstable_shouldLoadAsEsm(): boolean {
    return true;
  }

  /** Loads a test file, or a file of `setupFilesAfterEnv`, which runs for each test file. */
  override unstable_importModule(path: string): Promise<unknown> {
    imports += 1;
    return import(`${pathToFileURL(path).href}?${imports}`);
  }

  override setGlobalsForRuntime(): void {
    // The environment has already set the globals for the process.
  }
}

function requireWithSharedStorage(path: string): unknown {
  asyncHooks.AsyncLocalStorage = SharedStorage;
  try {
    return require(path);
  } finally {
    asyncHooks.AsyncLocalStorage = AsyncLocalStorage;
  }
}
