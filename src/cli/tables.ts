// Tables and fields for people. Invariants: text from outside never reaches a terminal with its control characters; a
// table never wraps: columns that do not fit the terminal are left out and named below it. Time and memory are linear in
// the number of rows, and no call takes a row as a parameter: a list may have hundreds of thousands.
import { styleText } from 'node:util';
import measureWidth from 'string-width';
import { readProcessVariables } from '../config/environment.js';

const MAX_LINE = 72;
const PRINTABLE_ASCII = /^[\u0020-\u007e]*$/;
/** What a table takes beside its texts: `│ ` before and ` ` after each column, and `│` at the end. */
const COLUMN_FRAME = 3;

export type Cell = string | number | boolean | null | undefined;
/** An array is several lines in one cell. */
type Value = Cell | readonly Cell[];
type Row<Name extends string> = Readonly<Record<Name, Value>>;

export interface TableOptions<Name extends string> {
  /** The columns that are left out first when the terminal is narrow; then the last ones. One column always stays. */
  readonly drop?: readonly Name[];
  readonly colour?: (name: Name, value: Value) => Colour | undefined;
  readonly screen?: Screen;
}

/** @param rows objects with the same fields; the fields of `columns` are shown, in that order */
export function formatTable<Name extends string>(
  columns: readonly Name[],
  rows: readonly Row<Name>[],
  { drop = [], colour = () => undefined, screen = detectScreen() }: TableOptions<Name> = {},
): string {
  if (rows.length === 0) return 'none';
  let shown = columns.map((name) => ({ name, width: measureColumn(name, rows) }));
  for (const dropped of new Set([...drop, ...columns.slice(1).reverse()])) {
    const width = shown.reduce((sum, column) => sum + column.width + COLUMN_FRAME, 1);
    if (width <= screen.columns || shown.length === 1) break;
    shown = shown.filter(({ name }) => name !== dropped);
  }
  const rule = (left: string, middle: string, right: string): string =>
    left + shown.map(({ width }) => '─'.repeat(width + COLUMN_FRAME - 1)).join(middle) + right;
  const head = shown.map(({ name, width }) => pad(paint(screen, name, 'bold'), name, width));
  const lines = [rule('┌', '┬', '┐'), `│ ${head.join(' │ ')} │`];
  for (const row of rows) addRow(lines, row, shown, (name, text) => paint(screen, text, colour(name, row[name])));
  lines.push(rule('└', '┴', '┘'));
  const dropped = columns.filter((name) => !shown.some((column) => column.name === name));
  if (dropped.length > 0) lines.push(paint(screen, `Not shown at this width: ${dropped.join(', ')}.`, 'dim'));
  return lines.join('\n');
}

function addRow<Name extends string>(
  lines: string[],
  row: Row<Name>,
  columns: readonly { name: Name; width: number }[],
  paintCell: (name: Name, text: string) => string,
): void {
  const cells = columns.map(({ name, width }) => ({ name, width, texts: toTexts(row[name]) }));
  const height = cells.reduce((most, { texts }) => Math.max(most, texts.length), 1);
  for (let index = 0; index < height; index += 1) {
    const line = cells.map(({ name, width, texts }) => {
      const text = texts[index] ?? '';
      return pad(paintCell(name, text), text, width);
    });
    lines.push(`│ ${line.join(' │ ')} │`);
  }
}

function toTexts(value: Value): string[] {
  return [value].flat().map(replaceControlCharacters);
}

function measureColumn<Name extends string>(name: Name, rows: readonly Row<Name>[]): number {
  let width = measure(name);
  for (const row of rows) for (const text of toTexts(row[name])) width = Math.max(width, measure(text));
  return width;
}

/** @returns the places that a text takes on a terminal: a Chinese character takes two */
function measure(text: string): number {
  return PRINTABLE_ASCII.test(text) ? text.length : measureWidth(text);
}

function pad(painted: string, text: string, width: number): string {
  return painted + ' '.repeat(width - measure(text));
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

function paint({ hasColours }: Screen, text: string, colour: Colour | undefined): string {
  // The screen has decided: Node.js would ask the streams of this process again.
  return hasColours && colour !== undefined && text !== '' ? styleText(colour, text, { validateStream: false }) : text;
}
