// Tables and fields for people. Invariants: control characters of foreign text never reach a terminal; a table never
// wraps, but names the columns that do not fit below it. Time and memory are linear in the number of rows, and rows are
// never spread into parameters: a list may have hundreds of thousands.
import { styleText } from 'node:util';
import measureWidth from 'string-width';
import { readProcessVariables } from '../foundation/config/environment.js';

const MAX_LINE = 72;
const PRINTABLE_ASCII = /^[\u0020-\u007e]*$/;
/** The width that a column takes besides its text: `│ ` before and ` ` after it. */
const COLUMN_FRAME = 3;

export type Cell = string | number | boolean | null | undefined;
/** An array is several lines in one cell. */
type Value = Cell | readonly Cell[];
type Row<Name extends string> = Readonly<Record<Name, Value>>;

export interface TableOptions<Name extends string> {
  /** The columns to leave out first in a narrow terminal, before the last ones. One column always stays. */
  readonly drop?: readonly Name[];
  readonly colour?: (name: Name, value: Value) => Colour | undefined;
  readonly screen?: Screen;
}

/** @param rows objects with the same fields; the fields of `columns` are shown, in that order */
export function formatTable<Name extends string>(
  columns: readonly Name[],
  rows: readonly Row<Name>[],
  options?: TableOptions<Name>,
): string {
  const table = new Table(columns, options);
  return (table.add(rows) + table.end()).slice(0, -1);
}

/** A table that is printed while its rows arrive. A row that does not fit starts a new head. */
export class Table<Name extends string> {
  private widths: readonly number[] = [];
  private shown: readonly { name: Name; width: number }[] = [];
  private readonly options: Required<TableOptions<Name>>;

  constructor(
    private readonly columns: readonly Name[],
    { drop = [], colour = () => undefined, screen = detectScreen() }: TableOptions<Name> = {},
  ) {
    this.options = { drop, colour, screen };
  }

  /** @returns the lines of these rows, with a head where one is needed */
  add(rows: readonly Row<Name>[]): string {
    if (rows.length === 0) return '';
    const { screen } = this.options;
    const lines: string[] = [];
    const widths = this.columns.map((name, index) => measureColumn(name, rows, this.widths[index]));
    if (widths.some((width, index) => width !== this.widths[index])) {
      if (this.shown.length > 0) lines.push(this.drawRule('└', '┴', '┘'));
      this.widths = widths;
      this.shown = this.fitColumns();
      const head = this.shown.map(({ name, width }) => pad(paint(screen, name, 'bold'), name, width));
      lines.push(this.drawRule('┌', '┬', '┐'), `│ ${head.join(' │ ')} │`);
    }
    for (const row of rows) this.drawRow(row, lines);
    return `${lines.join('\n')}\n`;
  }

  end(): string {
    if (this.shown.length === 0) return 'none\n';
    const dropped = this.columns.filter((name) => !this.shown.some((column) => column.name === name));
    const note = paint(this.options.screen, `Not shown at this width: ${dropped.join(', ')}.`, 'dim');
    return `${this.drawRule('└', '┴', '┘')}\n${dropped.length > 0 ? `${note}\n` : ''}`;
  }

  private drawRow(row: Row<Name>, lines: string[]): void {
    const { colour, screen } = this.options;
    const cells = this.shown.map(({ name, width }) => ({ name, width, texts: toTexts(row[name]) }));
    const height = cells.reduce((most, { texts }) => Math.max(most, texts.length), 1);
    for (let index = 0; index < height; index += 1) {
      const line = cells.map(({ name, width, texts: { [index]: text = '' } }) =>
        pad(paint(screen, text, colour(name, row[name])), text, width),
      );
      lines.push(`│ ${line.join(' │ ')} │`);
    }
  }

  private fitColumns() {
    const { drop, screen } = this.options;
    let shown = this.columns.map((name, index) => ({ name, width: this.widths[index] ?? 0 }));
    for (const dropped of new Set([...drop, ...this.columns.slice(1).reverse()])) {
      const width = shown.reduce((sum, column) => sum + column.width + COLUMN_FRAME, 1);
      if (width <= screen.columns || shown.length === 1) break;
      shown = shown.filter(({ name }) => name !== dropped);
    }
    return shown;
  }

  private drawRule(left: string, middle: string, right: string): string {
    return left + this.shown.map(({ width }) => '─'.repeat(width + COLUMN_FRAME - 1)).join(middle) + right;
  }
}

function toTexts(value: Value): string[] {
  return [value].flat().map(replaceControlCharacters);
}

function measureColumn<Name extends string>(name: Name, rows: readonly Row<Name>[], least = 0): number {
  let width = Math.max(least, measure(name));
  for (const row of rows) for (const text of toTexts(row[name])) width = Math.max(width, measure(text));
  return width;
}

/** @returns the columns that a text takes on a terminal: a Chinese character takes two */
function measure(text: string): number {
  return PRINTABLE_ASCII.test(text) ? text.length : measureWidth(text);
}

function pad(painted: string, text: string, width: number): string {
  return painted + ' '.repeat(width - measure(text));
}

/** @returns the text in lines of at most `width` characters, except for a single longer word */
export function wrapText(text: string, width = MAX_LINE): string[] {
  // A longer word has a line of its own, so that it can be copied.
  return text.match(new RegExp(`\\S(?:.{0,${Math.max(width, 2) - 1}}(?!\\S)|\\S*)`, 'g')) ?? [];
}

/** @returns the width for a text beside columns that take `taken` characters */
export function fitWidth(taken: number, { columns } = detectScreen()): number {
  return Math.min(MAX_LINE, columns - taken);
}

/** Prevents terminal injection: line breaks and escape sequences in a value become U+FFFD. */
export function replaceControlCharacters(cell: Cell): string {
  return String(cell ?? '').replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\ufffd');
}

/** The control characters that {@link paint} writes, and line breaks. */
const OWN_CONTROLS = `\u001b\\[(?:1|2|22|31|33|39)m|\n`;
const FOREIGN_CONTROL = new RegExp(`(${OWN_CONTROLS})|[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}]`, 'gu');

/** As {@link replaceControlCharacters}, for a message with lines and colours of its own. */
export function cleanMessage(message: string): string {
  return message.replace(FOREIGN_CONTROL, (_character, own?: string) => own ?? '\ufffd');
}

/**
 * JSON.stringify escapes only some of the control characters.
 * @returns the same data
 */
export function escapeJson(json: string): string {
  return json.replace(/[\u007f-\u009f\p{Cf}\p{Zl}\p{Zp}]/gu, (character) =>
    character
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}

export function formatFields(record: Readonly<Record<string, Cell>>): string {
  const fields = Object.entries(record).map((field) => field.map(replaceControlCharacters) as [string, string]);
  const width = Math.max(...fields.map(([name]) => name.length));
  return fields.map(([name, value]) => `${name.padEnd(width)}  ${value || '-'}`).join('\n');
}

export type Colour = 'bold' | 'dim' | 'red' | 'yellow';

/** Where a result is shown. A file and a pipe have no width and no colours. */
interface Screen {
  readonly columns: number;
  readonly hasColours: boolean;
}

/** @returns the screen of standard output; NO_COLOR (https://no-color.org) turns colours off */
export function detectScreen(
  { isTTY, columns }: Pick<NodeJS.WriteStream, 'isTTY' | 'columns'> = process.stdout,
): Screen {
  if (!isTTY) return { columns: Infinity, hasColours: false };
  const { NO_COLOR, TERM } = readProcessVariables();
  return { columns: columns > 0 ? columns : Infinity, hasColours: NO_COLOR === undefined && TERM !== 'dumb' };
}

function paint({ hasColours }: Screen, text: string, colour: Colour | undefined): string {
  // `hasColours` has decided; Node.js would ask the streams of this process again.
  return hasColours && colour !== undefined && text !== '' ? styleText(colour, text, { validateStream: false }) : text;
}
