#!/usr/bin/env node
// The operators' program. Commands of `platform/` work on the database and on files; commands of `remote/` call the
// service over HTTP, with the admin key. Standard output holds the result (`--json` for scripts), standard error all
// else; with --json its last line is a failure, `{"code", "message"}`. Exit codes: 0 done, 1 failed or something is
// broken, 2 wrong usage, 141 when the reader of its output has ended (as shells report SIGPIPE).
import { readPackageVersion } from '../common/package-version.js';
import { StartTimeoutError } from '../common/start-watch.js';
import { reportFailure } from './failure.js';
import { createProgram } from './program.js';
import { endWithReaders } from './readers.js';

/** --json counts wherever it stands, also in a command line that cannot be parsed. */
const output = { json: process.argv.includes('--json') };

async function main(): Promise<number> {
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

endWithReaders(output);
process.exitCode = await main();
