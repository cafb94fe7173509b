import config from './jest.config.js';

/** The tests that run real processes for long: services, command lines that are killed, PostgreSQL servers of their own. */
export default {
  ...config,
  testPathIgnorePatterns: ['/node_modules/'],
  testMatch: ['**/*.process.spec.js'],
  maxWorkers: 3,
};
