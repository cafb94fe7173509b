// What commands print: results on standard output (text for people, `--json` for scripts), progress and errors on
// standard error.
import type { Command } from 'commander';

/** The global options that decide how a result is printed. */
export interface Output {
  readonly json: boolean;
}

const PROGRESS_DELAY_MS = 1_000;

/** The command understood the request and could not or would not do it: exit code 1. The message says what to do next. */
export class CommandFailedError extends Error {
  override readonly name: string = 'CommandFailedError';

  /** @param code for scripts, which branch on it: a stable word */
  constructor(
    message: string,
    readonly code = 'failed',
  ) {
    super(message);
  }
}

/** Prints the result on standard output: as JSON for scripts, or as the text that `toText` makes of it for people. */
export function print<Result>(command: Command, result: Result, toText: (result: Result) => string): void {
  const { json } = command.optsWithGlobals<Output>();
  process.stdout.write(`${json ? JSON.stringify(result, null, 2) : toText(result)}\n`);
}

/** Writes to standard error, so that standard output holds only the result. */
export function say(message: string): void {
  process.stderr.write(`${message}\n`);
}

/** Says on standard error what the command waits for, once the wait is longer than a second. */
export async function announceIfSlow<Result>(what: string, work: Promise<Result>): Promise<Result> {
  const timer = setTimeout(() => say(`${what} …`), PROGRESS_DELAY_MS);
  try {
    return await work;
  } finally {
    clearTimeout(timer);
  }
}

const BAR_WIDTH = 30;
const LINES_BETWEEN_REPORTS = 10_000;

/** Shows on standard error how far a long run is: a bar on a terminal, else a line now and then. */
export class Progress {
  private reported = 0;

  constructor(
    /** Of the work in the unit of `done`; undefined when it is not known. */
    private readonly total: number | undefined,
    private readonly stream: Pick<NodeJS.WriteStream, 'isTTY' | 'write'> = process.stderr,
  ) {}

  show(done: number, lines: number): void {
    if (this.stream.isTTY) this.stream.write(`\r${this.draw(done)}${lines} lines`);
    else if (lines - this.reported >= LINES_BETWEEN_REPORTS) {
      this.reported = lines;
      this.stream.write(`… ${lines} lines so far\n`);
    }
  }

  /** Removes the bar. */
  clear(): void {
    if (this.stream.isTTY) this.stream.write('\r\u001b[K');
  }

  private draw(done: number): string {
    if (this.total === undefined || this.total === 0) return '';
    const share = Math.min(1, done / this.total);
    const filled = Math.round(share * BAR_WIDTH);
    return `[${'#'.repeat(filled)}${'-'.repeat(BAR_WIDTH - filled)}] ${String(Math.floor(share * 100)).padStart(3)} % `;
  }
}
