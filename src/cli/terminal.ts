import Table from 'cli-table3';

/** What a command reports besides its exit code: tables for people, `--json` for scripts. */
export interface Output {
  readonly json: boolean;
}

const PATIENCE_MS = 1_000;
/** Up to 72 characters of whole words; a longer word has a line of its own, so that it can be copied. */
const LINE = /\S(?:.{0,71}(?!\S)|\S*)/g;

export type Cell = string | number | boolean | null | undefined;
/** Several lines in one cell. */
export type Lines = readonly Cell[];

/** The command understood and says no, or what it needed failed: exit code 1. The message says what to do next. */
export class CommandFailed extends Error {}

/** Prints the result on standard output: the value itself for scripts, or what `asText` makes of it for people. */
export function print<Result>({ json }: Output, result: Result, asText: (result: Result) => string): void {
  process.stdout.write(`${json ? JSON.stringify(result, null, 2) : asText(result)}\n`);
}

/** Says on standard error what is going on, so that standard output stays what scripts read. */
export function say(message: string): void {
  process.stderr.write(`${message}\n`);
}

/** @param rows objects with the same fields; the fields of `columns` are shown, in that order */
export function table<Name extends string>(
  columns: readonly Name[],
  rows: readonly Record<Name, Cell | Lines>[],
): string {
  if (rows.length === 0) return 'none';
  const grid = new Table({
    head: [...columns],
    style: { head: [], border: [], compact: true },
    chars: { mid: '', 'left-mid': '', 'mid-mid': '', 'right-mid': '' },
  });
  for (const row of rows) grid.push(columns.map((name) => [row[name]].flat().map(visible).join('\n')));
  return grid.toString();
}

/** @returns the lines of a text, none of which is wider than people read, unless a word is */
export function wrapped(text: string): string[] {
  return text.match(LINE) ?? [];
}

/** Says on standard error what is being waited for, once the wait is longer than a second. */
export async function during<Result>(what: string, work: Promise<Result>): Promise<Result> {
  const timer = setTimeout(() => say(`${what} …`), PATIENCE_MS);
  try {
    return await work;
  } finally {
    clearTimeout(timer);
  }
}

/** @returns one line that a terminal shows and does not obey */
export function visible(cell: Cell): string {
  return String(cell ?? '').replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\ufffd');
}

/** Names and values below each other, for one thing with many fields. */
export function fields(of: Readonly<Record<string, Cell>>): string {
  const width = Math.max(...Object.keys(of).map((name) => name.length));
  return Object.entries(of)
    .map(([name, value]) => `${name.padEnd(width)}  ${visible(value) || '-'}`)
    .join('\n');
}
