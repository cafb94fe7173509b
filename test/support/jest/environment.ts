import { ModuleMocker } from 'jest-mock';

const TEST_TIMEOUT = Symbol.for('TEST_TIMEOUT_SYMBOL');

/** Runs tests in the process of the worker, without a context of their own (runtime.ts). */
export default class NativeEnvironment {
  global = globalThis;
  moduleMocker = new ModuleMocker(globalThis);

  /** Sets the `jest` object of each test file. */
  setup(): void {
    const { moduleMocker } = this;
    Reflect.deleteProperty(globalThis, TEST_TIMEOUT);
    Reflect.set(globalThis, 'jest', {
      fn: moduleMocker.fn.bind(moduleMocker),
      spyOn: moduleMocker.spyOn.bind(moduleMocker),
      restoreAllMocks: moduleMocker.restoreAllMocks.bind(moduleMocker),
      setTimeout: (ms: number) => Reflect.set(globalThis, TEST_TIMEOUT, ms),
    });
  }

  teardown(): void {
    this.moduleMocker.restoreAllMocks();
  }

  getVmContext(): null {
    return null;
  }
}
