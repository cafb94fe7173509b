/** @type {import('jest').Config} */
export default {
  rootDir: import.meta.dirname,
  roots: ['<rootDir>/test', '<rootDir>/clients/typescript/test'],
  testMatch: ['**/*.spec.ts'],
  // `npm run test:process` runs these.
  testPathIgnorePatterns: ['/node_modules/', '\\.process\\.spec\\.ts$'],
  extensionsToTreatAsEsm: ['.ts'],
  moduleNameMapper: {
    // A worker thread runs outside of Jest, from the compiled file.
    '^\\./password\\.worker\\.js$': '<rootDir>/dist/src/passwords/password.worker.js',
    '^(\\.{1,2}/.*)\\.js$': '$1',
  },
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      {
        jsc: {
          target: 'es2022',
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true, useDefineForClassFields: false },
        },
        module: { type: 'es6' },
        sourceMaps: 'inline',
      },
    ],
  },
  // Jest runs these itself, untransformed: hence the compiled files.
  globalSetup: '<rootDir>/dist/test/support/programs/global-setup.js',
  globalTeardown: '<rootDir>/dist/test/support/programs/global-teardown.js',
  reporters: ['default', '<rootDir>/dist/test/support/programs/log-reporter.js'],
  // Ends a test that hangs; it does not measure one that passes.
  testTimeout: 120_000,
  maxWorkers: 2,
  // What a test file imports as ES modules is never freed: a worker that has grown so far is replaced.
  workerIdleMemoryLimit: '1500MB',
  coverageProvider: 'v8',
  // Coverage does not reach into worker threads.
  collectCoverageFrom: ['src/**/*.ts', '!src/**/*.worker.ts'],
  coverageReporters: ['text'],
};
