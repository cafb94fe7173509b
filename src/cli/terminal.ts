// What commands print: results on standard output (tables for people, `--json` for scripts), progress and errors on
// standard error. Invariant: text from outside never reaches a terminal with its control characters.
import Table from 'cli-table3';

/** The global options that decide how a result is printed. */
export interface Output {
  readonly json: boolean;
}

const PROGRESS_DELAY_MS = 1_000;
/** Up to 72 characters of whole words; a longer word has a line of its own, so that it can be copied. */
const LINE = /\S(?:.{0,71}(?!\S)|\S*)/g;

export type Cell = string | number | boolean | null | undefined;
/** Several lines in one cell. */
export type Lines = readonly Cell[];

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
export function print<Result>({ json }: Output, result: Result, toText: (result: Result) => string): void {
  process.stdout.write(`${json ? JSON.stringify(result, null, 2) : toText(result)}\n`);
}

/** Writes to standard error, so that standard output holds only the result. */
export function say(message: string): void {
  process.stderr.write(`${message}\n`);
}

/** @param rows objects with the same fields; the fields of `columns` are shown, in that order */
export function formatTable<Name extends string>(
  columns: readonly Name[],
  rows: readonly Record<Name, Cell | Lines>[],
): string {
  if (rows.length === 0) return 'none';
  const grid = new Table({
    head: [...columns],
    style: { head: [], border: [], compact: true },
    chars: { mid: '', 'left-mid': '', 'mid-mid': '', 'right-mid': '' },
  });
  for (const row of rows) grid.push(columns.map((name) => [row[name]].flat().map(replaceControlCharacters).join('\n')));
  return grid.toString();
}

/** @returns the text in lines of at most 72 characters, except where a single word is longer */
export function wrapText(text: string): string[] {
  return text.match(LINE) ?? [];
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

/** Prevents terminal injection: line breaks and escape sequences in a value become U+FFFD. */
export function replaceControlCharacters(cell: Cell): string {
  return String(cell ?? '').replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\ufffd');
}

/** Names and values below each other, for one record with many fields. */
export function formatFields(record: Readonly<Record<string, Cell>>): string {
  const width = Math.max(...Object.keys(record).map((name) => name.length));
  return Object.entries(record)
    .map(([name, value]) => `${name.padEnd(width)}  ${replaceControlCharacters(value) || '-'}`)
    .join('\n');
}
