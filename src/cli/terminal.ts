// What commands print and ask: results on standard output (text for people, `--json` for scripts), progress, questions
// and errors on standard error.
import { createWriteStream, fstatSync, openSync, rmSync, statSync } from 'node:fs';
import { devNull } from 'node:os';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import type { Command } from 'commander';
import { cleanMessage, escapeJson } from './tables.js';

/** The global options that decide how a result is printed. */
export interface Output {
  readonly json: boolean;
}

const PROGRESS_DELAY_MS = 1_000;

/** The command understood the request, and could not or would not do it. The message says what to do next. */
export class CommandFailedError extends Error {
  override readonly name: string = 'CommandFailedError';

  /** @param code a stable word, on which scripts branch */
  constructor(
    message: string,
    readonly code = 'failed',
    readonly exitCode = 1,
  ) {
    super(message);
  }
}

export function print<Result>(command: Command, result: Result, toText: (result: Result) => string): void {
  process.stdout.write(formatResult(command, result, toText));
}

export function formatResult<Result>(command: Command, result: Result, toText: (result: Result) => string): string {
  const { json } = command.optsWithGlobals<Output>();
  return `${json ? escapeJson(JSON.stringify(result, null, 2)) : cleanMessage(toText(result))}\n`;
}

/**
 * Writes a key that is shown only this once.
 * @param remedy what to do when it could not be written
 */
export async function writeKey(text: string, remedy: string): Promise<void> {
  try {
    await writeKeys(text);
  } catch (error) {
    const message = `Standard output cannot be written: ${(error as Error).message}. The key is lost. ${remedy}`;
    throw new CommandFailedError(message, 'output_unusable');
  }
}

/**
 * Refuses to issue a key when standard output discards it. Node.js opens the null device in place of a closed output
 * (`>&-`), so that every write succeeds.
 */
export function refuseNullOutput(): void {
  const output = fstatSync(process.stdout.fd);
  if (output.isCharacterDevice() && output.rdev === statSync(devNull).rdev)
    throw new CommandFailedError('Standard output is closed or discarded: no key was made.', 'output_unusable');
}

let undoesUnwritten = false;

/** While a command undoes what it could not write, the process must not end. */
export function isUndoingUnwritten(): boolean {
  return undoesUnwritten;
}

/**
 * Writes what cannot be printed again.
 * @throws {CommandFailedError} when it was not written; the caller then undoes what it made
 */
export async function writeKeys(text: string): Promise<void> {
  undoesUnwritten = true;
  const failure = await new Promise<Error | null | undefined>((resolve) => process.stdout.write(text, resolve));
  if (failure) {
    const isEnded = (failure as NodeJS.ErrnoException).code === 'EPIPE';
    const cause = isEnded ? 'the reader of standard output has ended' : failure.message;
    throw new CommandFailedError(cause, 'output_unusable');
  }
  undoesUnwritten = false;
}

const ENDING_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** The first SIGINT, SIGTERM or SIGHUP aborts the work; the second ends the process. */
export async function runUntilSignal<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
  const abort = new AbortController();
  const stop = (): void => abort.abort();
  for (const signal of ENDING_SIGNALS) process.once(signal, stop);
  try {
    return await work(abort.signal);
  } finally {
    for (const signal of ENDING_SIGNALS) process.off(signal, stop);
  }
}

/**
 * Exports one line for each row. When it fails, or a signal ends it, the file is removed, because a partial export looks
 * like a complete one.
 * @param file a new file, which only its owner may read; undefined: standard output
 * @param pages read while the export runs; a signal ends it after the current one
 * @returns the number of lines
 */
export async function writeExport<Row>(
  file: string | undefined,
  pages: AsyncIterable<readonly Row[]>,
  formatLine: (row: Row) => string,
): Promise<number> {
  const run = async (signal?: AbortSignal): Promise<number> => {
    const descriptor = file === undefined ? undefined : openSync(file, 'wx', 0o600);
    const target = descriptor === undefined ? process.stdout : createWriteStream('', { fd: descriptor, flush: true });
    let count = 0;
    async function* formatPages(): AsyncGenerator<string> {
      for await (const page of pages) {
        if (signal?.aborted) return;
        yield page.map((row) => `${formatLine(row)}\n`).join('');
        count += page.length;
      }
    }
    const removeFile = (): void => {
      if (file !== undefined) rmSync(file, { force: true });
    };
    // At once, because a second signal ends the process.
    signal?.addEventListener('abort', removeFile);
    try {
      await pipeline(formatPages, target, { end: file !== undefined });
      if (signal?.aborted) throw new CommandFailedError('Interrupted: the export is not complete.', 'interrupted');
      return count;
    } catch (error) {
      // Once, because the next run may have made the file anew.
      if (!signal?.aborted) removeFile();
      throw error;
    }
  };
  // A signal ends an export to standard output at once, also while it waits for a slow reader.
  return file === undefined ? run() : runUntilSignal(run);
}

/** Writes a message, which may contain foreign text, to standard error; standard output holds only the result. */
export function say(message: string): void {
  process.stderr.write(`${cleanMessage(message)}\n`);
}

/** Says what the command waits for, once the wait is longer than a second. */
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

/** Shows how far a long run is: a bar on a terminal, otherwise a line now and then. */
export class Progress {
  private reported = 0;

  constructor(
    /** The size of the whole work, in the unit of `done`; undefined when it is not known. */
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

/** Asks before something that cannot be undone, and rejects unless the answer is yes. */
export type Confirm = (what: string | (() => Promise<string>)) => Promise<void>;

/** Adds --yes, which {@link createConfirm} reads. */
export function addYes<Added extends Command>(command: Added): Added {
  return command.option('-y, --yes', 'do not ask; needed without a terminal', false);
}

/**
 * Asks on the terminal; without one, the command needs --yes.
 * @throws {CommandFailedError} when it is not confirmed
 */
export function createConfirm(command: Command, { stdin, stderr } = process): Confirm {
  return async (describe) => {
    if (command.opts<{ yes: boolean }>().yes) return;
    const what = typeof describe === 'string' ? describe : await describe();
    if (!stdin.isTTY || !stderr.isTTY)
      throw new CommandFailedError(`${what} Add --yes to confirm. It was not done.`, 'confirmation_required');
    stderr.write(`${cleanMessage(what)} Continue? [y/N] `);
    const answer = await readLine(stdin);
    if (!/^\s*y(es)?\s*$/i.test(answer))
      throw new CommandFailedError('Not confirmed: it was not done.', 'not_confirmed');
  };
}

/** @returns empty when the input has ended */
async function readLine(input: NodeJS.ReadableStream): Promise<string> {
  for await (const line of createInterface({ input })) return line;
  return '';
}

export interface Terminal {
  readonly stdin: Pick<NodeJS.ReadStream, 'isTTY'> & NodeJS.ReadableStream;
  readonly stderr: NodeJS.WritableStream;
}

/**
 * Reads a new password: on a terminal twice and without echo, otherwise the first line of standard input. It is never a
 * parameter, which other users of the machine can see.
 * @throws {CommandFailedError} when it is empty, or typed differently the second time
 */
export async function readNewPassword(terminal: Terminal = process): Promise<string> {
  const { stdin } = terminal;
  const password = stdin.isTTY
    ? await askHidden(terminal, 'Password: ')
    : ((await text(stdin as NodeJS.ReadStream)).split(/\r?\n/)[0] ?? '');
  if (password === '')
    throw new CommandFailedError('The password is empty. Type it, or send it to standard input.', 'no_password');
  if (stdin.isTTY && (await askHidden(terminal, 'Again: ')) !== password)
    throw new CommandFailedError('The two passwords differ. Nothing was changed.', 'passwords_differ');
  return password;
}

/**
 * readline handles arrow keys, Ctrl-U and characters that arrive in parts. Its output is discarded, because it would
 * show the password.
 */
async function askHidden({ stdin, stderr }: Terminal, prompt: string): Promise<string> {
  stderr.write(prompt);
  const output = new Writable({ write: (_chunk, _encoding, done) => done() });
  const line = createInterface({ input: stdin, output, terminal: true, historySize: 0 });
  try {
    return await new Promise((resolve, reject) => {
      const interrupt = (): void => reject(new CommandFailedError('Interrupted. Nothing was changed.', 'interrupted'));
      line.once('line', resolve).once('close', interrupt);
    });
  } finally {
    line.close();
    stderr.write('\n');
  }
}
