import { DEFAULT_START_TIMEOUT_SECONDS } from '../common/start-watch.js';
import { postgresUrl } from './postgres-url.js';
import { wholeNumber } from './variable-kinds.js';
import type { Section } from './variable.js';

export const databaseSection = {
  title: 'Database',
  variables: {
    DATABASE_URL: {
      type: postgresUrl,
      mayBeFile: true,
      meaning:
        'PostgreSQL 14 or newer; required in production, else an [embedded server](operations/embedded-database.md) is started. Sockets, TLS and other ' +
        'parameters: [high-availability.md](operations/high-availability.md#database_url)',
      explanation:
        'PostgreSQL 14 or newer: postgresql://user:password@host:5432/database. Sockets, TLS and other parameters: ' +
        'docs/operations/high-availability.md.\n' +
        'Required in production. Unset elsewhere: an embedded PostgreSQL is started, with its data in .data/.',
    },
    START_TIMEOUT_SECONDS: {
      type: wholeNumber(1, 3_600).default(DEFAULT_START_TIMEOUT_SECONDS),
      meaning:
        'how long a start may go without progress before it exits with 1; see ' +
        '[high-availability.md](operations/high-availability.md)',
      explanation:
        'How long a start may go without progress, {bounds} seconds, before it gives up (exit code 1). A migration on ' +
        'which PostgreSQL works counts as progress. Whatever a start waits for, it says so every 5 seconds.',
    },
    DATABASE_POOL_SIZE: {
      type: wholeNumber(1, 1_000).default(10),
      meaning:
        'connections of one process, beside one for the feed of revocations and one for `/health`; half as many again ' +
        'while commits stall ([decision 41](decisions/0041-stalled-commits.md)); `WORKERS` multiplies it',
      explanation:
        'Connections in the pool of one process, {bounds}, beside one for the feed of revocations and one for /health. ' +
        'Half as many again while commits stall (docs/decisions/0041). Each of several WORKERS has a pool of its own.',
    },
    DATABASE_CONNECT_TIMEOUT_MS: {
      type: wholeNumber(50, 60_000).default(2_000),
      meaning: 'wait for a connection, then 503',
      explanation: 'How long to wait for a connection, {bounds} milliseconds. Then the answer is 503.',
    },
    DATABASE_STATEMENT_TIMEOUT_MS: {
      type: wholeNumber(50, 60_000).default(3_000),
      meaning: 'a statement or lock, then 503',
      explanation: 'How long one statement, or one lock, may take, {bounds} milliseconds. Then the answer is 503.',
    },
  },
} satisfies Section;
