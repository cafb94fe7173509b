#!/usr/bin/env node
// The operators' program. Commands of `platform/` work on the database and on files; commands of `remote/` call the
// service over HTTP, with the admin key. Standard output holds the result (`--json` for scripts), standard error all
// else; with --json its last line is a failure, `{"code", "message"}`. Exit codes: 0 done, 1 failed or something is
// broken, 2 wrong usage, 141 when the reader of its output has ended (as shells report SIGPIPE).
import { readPackageVersion } from '../common/package-version.js';
import { StartTimeoutError } from '../common/start-watch.js';
import { reportFailure, describeCause } from './failures.js';
import { createProgram } from './program.js';
import { CommandFailedError, type Output } from './output.js';

/** 128 + SIGPIPE: what a shell reports of other programs. Node.js ignores that signal. */
const EXIT_READER_ENDED = 141;

/** --json counts wherever it stands, also in a command line that cannot be parsed. */
const output = { json: process.argv.includes('--json') };

async function runProgram(): Promise<number> {
  try {
    await createProgram(readPackageVersion(), output).parseAsync();
    return 0;
  } catch (error) {
    const exitCode = reportFailure(error, output);
    // The connection that it still waits for would keep the process alive.
    if (error instanceof StartTimeoutError) process.exit(exitCode);
    return exitCode;
  }
}

/**
 * Ends the process quietly when the reader of standard output has ended, as `head` does, and with a message when the
 * output cannot be written. A command that is still at work then reports no success. A message that cannot be written is
 * not a failure.
 */
function endWithReaders(output: Output): void {
  process.stderr.on('error', () => undefined);
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(EXIT_READER_ENDED);
    const message = `Standard output cannot be written: ${describeCause(error)}.`;
    process.exit(reportFailure(new CommandFailedError(message, 'output_unusable'), output));
  });
}

endWithReaders(output);
process.exitCode = await runProgram();
