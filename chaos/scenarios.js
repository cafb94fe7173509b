import postgresKilled from './scenarios/postgres-killed.js';

export const scenarios = [postgresKilled];
