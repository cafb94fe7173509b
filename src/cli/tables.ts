// Tables and fields for people. Invariants: text from outside never reaches a terminal with its control characters; a
// table never wraps: columns that do not fit the terminal are left out and named below it.
import { styleText } from 'node:util';
import Table from 'cli-table3';
import { readProcessVariables } from '../config/environment.js';

const MAX_LINE = 72;

export type Cell = string | number | boolean | null | undefined;
/** Several lines in one cell. */
export type Lines = readonly Cell[];
type Row<Name extends string> = Readonly<Record<Name, Cell | Lines>>;

export interface TableOptions<Name extends string> {
  /** The columns that are left out first when the terminal is narrow; then the last ones. One column always stays. */
  readonly drop?: readonly Name[];
  readonly colour?: (name: Name, value: Cell | Lines) => Colour | undefined;
  readonly screen?: Screen;
}

/** @param rows objects with the same fields; the fields of `columns` are shown, in that order */
export function formatTable<Name extends string>(
  columns: readonly Name[],
  rows: readonly Row<Name>[],
  { drop = [], colour = () => undefined, screen = detectScreen() }: TableOptions<Name> = {},
): string {
  if (rows.length === 0) return 'none';
  let shown = columns;
  let table = draw(shown, rows, colour, screen);
  for (const name of new Set([...drop, ...columns.slice(1).reverse()])) {
    if (measure(table) <= screen.columns || shown.length === 1) break;
    shown = shown.filter((each) => each !== name);
    table = draw(shown, rows, colour, screen);
  }
  const dropped = columns.filter((name) => !shown.includes(name));
  if (dropped.length === 0) return table;
  return `${table}\n${paint(screen, `Not shown at this width: ${dropped.join(', ')}.`, 'dim')}`;
}

function draw<Name extends string>(
  columns: readonly Name[],
  rows: readonly Row<Name>[],
  colour: NonNullable<TableOptions<Name>['colour']>,
  screen: Screen,
): string {
  const grid = new Table({
    head: columns.map((name) => paint(screen, name, 'bold')),
    style: { head: [], border: [], compact: true },
    chars: { mid: '', 'left-mid': '', 'mid-mid': '', 'right-mid': '' },
  });
  for (const row of rows) {
    grid.push(
      columns.map((name) => {
        const lines = [row[name]].flat().map(replaceControlCharacters);
        return lines.map((line) => paint(screen, line, colour(name, row[name]))).join('\n');
      }),
    );
  }
  return grid.toString();
}

/** The upper border is as wide as the table, also where a character of a cell takes two places. */
function measure(table: string): number {
  return table.indexOf('\n');
}

/** @returns the text in lines of at most `width` characters, except where a single word is longer */
export function wrapText(text: string, width = MAX_LINE): string[] {
  // Whole words up to the width; a longer word has a line of its own, so that it can be copied.
  return text.match(new RegExp(`\\S(?:.{0,${Math.max(width, 2) - 1}}(?!\\S)|\\S*)`, 'g')) ?? [];
}

/** @returns how wide a text may be wrapped beside other columns, which take `taken` characters */
export function fitWidth(taken: number, { columns } = detectScreen()): number {
  return Math.min(MAX_LINE, columns - taken);
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

export type Colour = 'bold' | 'dim' | 'red' | 'yellow';

/** Where the result is shown. A file and a pipe are as wide as they need to be, and have no colours. */
export interface Screen {
  readonly columns: number;
  readonly hasColours: boolean;
}

/** @returns the screen of standard output; NO_COLOR of this process (https://no-color.org) turns colours off */
export function detectScreen(
  { isTTY, columns }: Pick<NodeJS.WriteStream, 'isTTY' | 'columns'> = process.stdout,
): Screen {
  if (!isTTY) return { columns: Infinity, hasColours: false };
  const { NO_COLOR, TERM } = readProcessVariables();
  return { columns: columns > 0 ? columns : Infinity, hasColours: NO_COLOR === undefined && TERM !== 'dumb' };
}

export function paint({ hasColours }: Screen, text: string, colour: Colour | undefined): string {
  // The screen has decided: Node.js would ask the streams of this process again.
  return hasColours && colour !== undefined && text !== '' ? styleText(colour, text, { validateStream: false }) : text;
}
