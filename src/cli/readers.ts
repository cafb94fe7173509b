import { reportFailure } from './failure.js';
import { CommandFailedError, type Output } from './terminal.js';
import { describeCause } from './system-errors.js';

/** 128 + SIGPIPE: what a shell reports of other programs. Node.js ignores that signal. */
const EXIT_READER_ENDED = 141;

/**
 * Ends the process quietly when the reader of standard output has ended, as `head` does, and with a message when the
 * output cannot be written. A command that is still at work then reports no success. A message that cannot be written is
 * not a failure.
 */
export function endWithReaders(output: Output): void {
  process.stderr.on('error', () => undefined);
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(EXIT_READER_ENDED);
    const message = `Standard output cannot be written: ${describeCause(error)}.`;
    process.exit(reportFailure(new CommandFailedError(message, 'output_unusable'), output));
  });
}
