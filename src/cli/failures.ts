import { types } from 'node:util';
import { CommanderError } from 'commander';
import { StartTimeoutError } from '../foundation/common/start-watch.js';
import { InvalidEnvironmentError } from '../foundation/config/environment.js';
import { ProblemException } from '../foundation/problems/problems.js';
import { CommandFailedError, say, type Output } from './terminal.js';

const EXIT_FAILED = 1;
const EXIT_USAGE = 2;

/**
 * Reports why a command failed on standard error: as text, or as the last line `{"code", "message"}` for scripts.
 * @returns the exit code
 */
export function reportFailure(error: unknown, { json }: Output): number {
  if (error instanceof CommanderError) {
    // Commander has already printed the text.
    if (json && error.exitCode !== 0) say(JSON.stringify({ code: 'usage', message: describeUsage(error) }));
    return error.exitCode === 0 ? 0 : EXIT_USAGE;
  }
  const { code, message } = toFailure(error);
  say(json ? JSON.stringify({ code, message }) : message);
  return error instanceof CommandFailedError ? error.exitCode : EXIT_FAILED;
}

export function toFailure(error: unknown): Failure {
  if (error instanceof CommandFailedError) return { code: error.code, message: error.message };
  if (error instanceof InvalidEnvironmentError)
    return { code: 'configuration_unusable', message: error.message + adviseOn(error) };
  if (error instanceof StartTimeoutError)
    return {
      code: 'database_unreachable',
      message: `Gave up: ${error.message}. Check DATABASE_URL and PostgreSQL, and run this again.`,
    };
  const message = `Unexpected error: ${error instanceof Error ? error.message : String(error)}`;
  return describeSystemError(error) ?? { code: 'unexpected', message };
}

/** In development the service starts its own database, whose URL an operator does not know. */
function adviseOn({ problems }: InvalidEnvironmentError): string {
  if (!problems.some((problem) => problem.startsWith('DATABASE_URL is required'))) return '';
  return '\nThe URL of the database that the service starts by itself in development: docs/operations/embedded-database.md';
}

/** When a group is called without a command, Commander prints the help in place of a message. */
function describeUsage({ code, message }: CommanderError): string {
  return code === 'commander.help' ? 'No command is named. See --help.' : message.replace(/^error: /, '');
}

// Words for errors of the operating system and of PostgreSQL, each with the next step.

/** An error for people, with a stable code for scripts. */
interface Failure {
  readonly code: string;
  readonly message: string;
}

const FILE_REASONS: Readonly<Record<string, string>> = {
  EACCES: 'you may not read or write it, or write in its folder',
  EPERM: 'you may not replace it; run this as its owner',
  ENOENT: 'it does not exist, or its folder does not',
  ENOTDIR: 'a part of its path is not a folder',
  EISDIR: 'it is a directory',
  EEXIST: 'there is a file of that name already',
  EROFS: 'its file system is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'your disk quota is used up',
  EFBIG: 'it would be larger than the file system or a limit allows',
};

const UNREACHABLE = 'database_unreachable';
const FORBIDDEN = 'database_forbidden';
const OUTDATED = 'schema_outdated';
const CORRECT_URL = 'Correct DATABASE_URL.';
const START = 'Start PostgreSQL, or correct DATABASE_URL.';
const CHECK_NETWORK = 'Check the network, or correct DATABASE_URL.';
type DatabaseFailure = readonly [code: string, what: string, next: string];
const DATABASE_FAILURES: Readonly<Record<string, DatabaseFailure>> = {
  ECONNREFUSED: [UNREACHABLE, 'The connection to the database was refused.', START],
  ECONNRESET: [UNREACHABLE, 'The connection to the database was lost.', 'Run this again.'],
  ENOENT: [UNREACHABLE, 'The socket of the database does not exist.', START],
  ENOTFOUND: [UNREACHABLE, 'The host of the database has no address.', CORRECT_URL],
  EAI_AGAIN: [UNREACHABLE, 'The address of the database could not be looked up.', CHECK_NETWORK],
  EHOSTUNREACH: [UNREACHABLE, 'The host of the database cannot be reached.', CHECK_NETWORK],
  ETIMEDOUT: [UNREACHABLE, 'The database did not answer in time.', CHECK_NETWORK],
  '57P03': [UNREACHABLE, 'PostgreSQL is starting or stopping.', 'Run this again in a few seconds.'],
  '53300': [UNREACHABLE, 'PostgreSQL has no free connection.', 'Close some, or raise max_connections.'],
  '3D000': ['database_missing', 'The database does not exist.', 'Create it (createdb), or correct DATABASE_URL.'],
  '28P01': [FORBIDDEN, 'PostgreSQL refuses the user or the password.', CORRECT_URL],
  '28000': [FORBIDDEN, 'PostgreSQL refuses the connection of this user.', 'Correct DATABASE_URL, or pg_hba.conf.'],
  '42501': [FORBIDDEN, 'The role in DATABASE_URL may not do this.', 'Use the role that owns the tables.'],
  '42P01': [OUTDATED, 'The schema is missing, or older than this program.', 'Run: platform-auth migrate'],
  UNRELEASED_SCHEMA: [
    OUTDATED,
    'The database was made before 0.1.0.',
    'Export its users with the commit that made it, and import them into a new database.',
  ],
  '42703': [OUTDATED, 'The schema is older than this program.', 'Run: platform-auth migrate'],
};
/** The PostgreSQL driver reports these errors without a code. */
const TIMEOUT = /^(timeout expired|Connection terminated due to connection timeout|Query read timeout)/;

/** @returns why a file cannot be used; undefined when the error is not one of a file */
export function describeFileReason(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException | undefined)?.syscall === 'connect' ? undefined : FILE_REASONS[getCode(error)];
}

/** @returns undefined when the error is not a known one of PostgreSQL or of the connection to it */
export function describeDatabaseFailure(error: unknown): DatabaseFailure | undefined {
  const isTimeout = types.isNativeError(error) && TIMEOUT.test(error.message);
  return DATABASE_FAILURES[isTimeout ? 'ETIMEDOUT' : getCode(error)];
}

/** @returns the cause of a failure for the middle of a sentence, without the next step */
export function describeCause(error: unknown): string {
  const refusal = error instanceof ProblemException ? error.problem.detail : undefined;
  const known = refusal ?? describeFileReason(error) ?? describeDatabaseFailure(error)?.[1];
  return (known ?? (types.isNativeError(error) ? error.message : String(error))).replace(/\.$/, '');
}

/** @returns undefined for an error that this program has no words for */
function describeSystemError(error: unknown): Failure | undefined {
  const reason = describeFileReason(error);
  if (reason !== undefined) {
    const { path = 'A file' } = error as NodeJS.ErrnoException;
    const next = 'Remove the cause, or name another place, and run this again.';
    return { code: 'file_unusable', message: `${path} cannot be used: ${reason}. ${next}` };
  }
  const [code, what, next] = describeDatabaseFailure(error) ?? [];
  return code === undefined ? undefined : { code, message: `${what} ${next}` };
}

/** A connection to a host with several addresses fails with one error for each address. */
function getCode(error: unknown): string {
  const { code, errors } = (error ?? {}) as { code?: unknown; errors?: unknown };
  if (typeof code === 'string') return code;
  return Array.isArray(errors) && errors.length > 0 ? getCode(errors[0]) : '';
}
