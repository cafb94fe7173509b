import { TestApp, type ReplicaOptions, type TestAppOptions } from './test-app.js';

/** Runs one application for all tests of the surrounding `describe`, or of the file. */
export function useApp(options?: TestAppOptions): TestApp {
  const app = new TestApp(options);
  beforeAll(() => app.start());
  afterAll(() => app.stop());
  return app;
}

/** Runs a replica of an application of {@link useApp} for all tests of the surrounding `describe`. */
export function useReplica(app: TestApp, options?: ReplicaOptions): TestApp {
  const replica = app.newReplica(options);
  beforeAll(() => replica.start());
  afterAll(() => replica.stop());
  return replica;
}

/** Runs a new application, over a new database, for each test. */
export function useAppPerTest(options?: TestAppOptions): TestApp {
  const app = new TestApp(options);
  beforeEach(() => app.start());
  afterEach(() => app.stop());
  return app;
}
