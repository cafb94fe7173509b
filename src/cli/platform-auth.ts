#!/usr/bin/env node
// The operators' program. Commands of `platform/` make a whole platform match its map (init, apply, doctor); those of
// `database/` work on the database; those of `remote/` call the service over HTTP, with the admin key. Standard output
// holds the result (`--json` for scripts), standard error all else; with --json its last line is a failure, `{"code",
// "message"}`. Exit codes: 0 done, 1 failed or something is broken, 2 wrong usage, 3 when a plan would change something,
// 141 when the reader of its output has ended (as shells report SIGPIPE).
import { readPackageVersion } from '../foundation/common/package-version.js';
import { StartTimeoutError } from '../foundation/common/start-watch.js';
import { reportFailure, describeCause } from './failures.js';
import { CommandFailedError, isUndoingUnwritten } from './terminal.js';
import { runCommand } from './program.js';

/** 128 + SIGPIPE, as shells report other programs. Node.js ignores that signal. */
const EXIT_READER_ENDED = 141;
const parameters = process.argv.slice(2);

// A message that cannot be written to standard error does not fail the command.
process.stderr.on('error', () => undefined);
// Ends quietly when the reader of standard output has ended, as `head` does, and else with a message. A command that
// still runs then reports no success.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (isUndoingUnwritten()) return;
  if (error.code === 'EPIPE') process.exit(EXIT_READER_ENDED);
  const message = `Standard output cannot be written: ${describeCause(error)}.`;
  const failure = new CommandFailedError(message, 'output_unusable');
  process.exit(reportFailure(failure, { json: parameters.includes('--json') }));
});

process.exitCode = await runCommand(readPackageVersion(), parameters, (error, exitCode) => {
  // Ends the process, which a connection that is still being opened would keep alive.
  if (error instanceof StartTimeoutError) process.exit(exitCode);
});
