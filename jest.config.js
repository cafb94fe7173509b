/**
 * Runs the compiled tests of dist/ (`npm run build`) as Node.js loads them.
 * @type {import('jest').Config}
 */
export default {
  rootDir: import.meta.dirname,
  // `npm run test:watch` sees a change of the service too.
  roots: ['src', 'packages', 'test', 'clients/typescript'].map((folder) => `<rootDir>/dist/${folder}`),
  testMatch: ['**/*.spec.js'],
  // `npm run test:process` runs these.
  testPathIgnorePatterns: ['/node_modules/', '\\.process\\.spec\\.js$'],
  transform: {},
  runtime: '<rootDir>/dist/test/support/jest/runtime.js',
  testEnvironment: '<rootDir>/dist/test/support/jest/environment.js',
  setupFilesAfterEnv: ['<rootDir>/dist/test/support/each-file.js'],
  globalSetup: '<rootDir>/dist/test/support/programs/global-setup.js',
  globalTeardown: '<rootDir>/dist/test/support/programs/global-teardown.js',
  // No failure is shown a second time at the end.
  reporters: ['<rootDir>/dist/test/support/programs/reporter.js', ['summary', { summaryThreshold: 10_000 }]],
  // Ends a test that hangs; it does not measure one that passes.
  testTimeout: 120_000,
  // More than two cores can do at once, because tests wait most of the time: for leases, timeouts and processes.
  maxWorkers: 6,
  // A worker that has grown so far is replaced. Also keeps Jest from running tests in its own process.
  workerIdleMemoryLimit: '900MB',
  // A worker that has nothing left to do took 0.2 s to exit on a busy machine, where Jest's 0.5 s are soon over.
  workerGracefulExitTimeout: 5_000,
  coverageProvider: 'v8',
  // Coverage does not reach into worker threads.
  collectCoverageFrom: ['dist/src/**/*.js', '!dist/src/**/*.worker.js'],
  coverageReporters: ['text'],
};
