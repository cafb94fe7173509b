import { types } from 'node:util';
import { DatabaseError } from 'pg';
import {
  CannotExecuteNotConnectedError,
  QueryFailedError,
  QueryRunnerAlreadyReleasedError,
  QueryRunnerProviderAlreadyReleasedError,
} from 'typeorm';
import { WrongClockError } from './compared-clock.js';
import { StandbyError } from './connection-check.js';
import { UnansweredStatementError, WriteRefusedError } from './request-pool.js';

/**
 * SQLSTATE classes of a wrong statement or wrong data: a bug and not an outage. 42P05 (like 26000) is an outage: a
 * pooler gave the session, with its prepared statements, to another client.
 */
const BUG = /^(22|23|42(?!P05))/;
/** Codes of sockets, TLS and name resolution. With EMFILE, ENFILE and EADDRNOTAVAIL this machine has no socket left. */
const NETWORK_CODES = new RegExp(
  `^(${[
    'ECONN\\w+|EPIPE|ETIMEDOUT|EHOST\\w+|ENET\\w+|ENOTCONN|ENOTFOUND|EAI_\\w+|ENOENT',
    'EADDRNOTAVAIL|EMFILE|ENFILE',
    'EPROTO|ERR_(STREAM|SOCKET|SSL|TLS)_\\w+',
  ].join('|')})$`,
);
const OUTAGES = [
  // The connection broke between two statements of a transaction. TypeORM's next call decides which of the two errors
  // it throws.
  QueryRunnerAlreadyReleasedError,
  QueryRunnerProviderAlreadyReleasedError,
  CannotExecuteNotConnectedError,
  UnansweredStatementError,
  WriteRefusedError,
  StandbyError,
  WrongClockError,
];
/** Messages of the driver's failures that have no code. */
const DRIVER_MESSAGES = new RegExp(
  `^(${[
    'Connection terminated',
    'timeout expired',
    'timeout exceeded when trying to connect',
    'Query read timeout',
    'Client (has encountered a connection error|was closed)',
    'Cannot use a pool after calling end',
    'Driver not Connected',
    'DataSource .*not initialized',
    'Received unexpected \\w+ message',
    'The server does not support SSL',
    'There was an error establishing an SSL',
  ].join('|')})`,
  'i',
);

/** Whether this replica could not look (503): no answer, or a wrong clock. Any other error is a bug (500). */
export function isDatabaseFailure(error: unknown): boolean {
  if (error instanceof QueryFailedError) return isDatabaseFailure(error.driverError);
  if (OUTAGES.some((outage) => error instanceof outage)) return true;
  if (error instanceof DatabaseError) return !BUG.test(error.code ?? '');
  if (!types.isNativeError(error)) return false;
  if ('errors' in error && Array.isArray(error.errors)) return error.errors.some(isDatabaseFailure);
  if ('code' in error && typeof error.code === 'string' && NETWORK_CODES.test(error.code)) return true;
  return DRIVER_MESSAGES.test(error.message);
}

/** Whether the database can read but not write: it is read-only (25006), its disk is full (53100), or commits stall. */
export function isWriteRefusal(error: unknown): boolean {
  if (error instanceof WriteRefusedError) return true;
  return error instanceof DatabaseError && (error.code === '25006' || error.code === '53100');
}

/** Whether the role of the connection lacks a privilege (42501). */
export function isPermissionDenied(error: unknown): boolean {
  return getDatabaseError(error)?.code === '42501';
}

/** Whether a statement gave up waiting for a lock (55P03). */
export function isLockTimeout(error: unknown): boolean {
  return getDatabaseError(error)?.code === '55P03';
}

/** @returns the name of the constraint that a statement violated, as its migration defines it */
export function getViolatedConstraint(error: unknown): string | undefined {
  const found = getDatabaseError(error);
  return found?.code?.startsWith('23') ? found.constraint : undefined;
}

/** Rejects with another error in place of the violation of this constraint. */
export async function translateViolation<Result>(
  work: Promise<Result>,
  constraint: string,
  createError: () => Error,
): Promise<Result> {
  return work.catch((error: unknown) => {
    throw getViolatedConstraint(error) === constraint ? createError() : error;
  });
}

function getDatabaseError(error: unknown): DatabaseError | undefined {
  const cause: unknown = error instanceof QueryFailedError ? error.driverError : error;
  return cause instanceof DatabaseError ? cause : undefined;
}
