import { CommanderError } from 'commander';
import { StartTimeoutError } from '../common/start-watch.js';
import { InvalidEnvironmentError } from '../config/environment.js';
import { describeSystemError, type Failure } from './system-errors.js';
import { CommandFailedError, say, type Output } from './terminal.js';

const EXIT_FAILED = 1;
const EXIT_USAGE = 2;

/**
 * Reports why a command failed on standard error: as text, or as the last line `{"code", "message"}` for scripts.
 * @returns the exit code
 */
export function reportFailure(error: unknown, { json }: Output): number {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return 0;
    if (json) sayFailure({ code: 'usage', message: describeUsage(error) });
    return EXIT_USAGE;
  }
  const failure = toFailure(error);
  if (json) sayFailure(failure);
  else say(failure.message);
  return EXIT_FAILED;
}

export function toFailure(error: unknown): Failure {
  if (error instanceof CommandFailedError) return { code: error.code, message: error.message };
  if (error instanceof InvalidEnvironmentError)
    return { code: 'configuration_unusable', message: error.message + adviseOn(error) };
  if (error instanceof StartTimeoutError)
    return { code: 'database_unreachable', message: `Gave up: ${error.message}.` };
  const known = describeSystemError(error);
  if (known) return known;
  return { code: 'unexpected', message: `Unexpected error: ${error instanceof Error ? error.message : String(error)}` };
}

/** Outside production the service runs without DATABASE_URL, so a newcomer does not know one. */
function adviseOn({ problems }: InvalidEnvironmentError): string {
  if (!problems.some((problem) => problem.startsWith('DATABASE_URL is required'))) return '';
  return '\nThe URL of the database that the service starts by itself in development: docs/operations/embedded-database.md';
}

function sayFailure({ code, message }: Failure): void {
  say(JSON.stringify({ code, message }));
}

/** Commander prints the help, which is not a message, when a group is called without a command. */
function describeUsage({ code, message }: CommanderError): string {
  return code === 'commander.help' ? 'No command is named. See --help.' : message.replace(/^error: /, '');
}
