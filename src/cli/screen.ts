import { readVariables } from '../config/environment.js';

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 } as const;
export type Colour = keyof typeof CODES;

/** Where the result is shown. A file and a pipe are as wide as they need to be, and have no colours. */
export interface Screen {
  readonly columns: number;
  readonly hasColours: boolean;
}

/** @returns the screen of standard output; NO_COLOR (https://no-color.org) turns colours off */
export function detectScreen(
  { isTTY, columns }: Pick<NodeJS.WriteStream, 'isTTY' | 'columns'> = process.stdout,
): Screen {
  if (!isTTY) return { columns: Infinity, hasColours: false };
  const { NO_COLOR, TERM } = readVariables();
  return { columns: columns > 0 ? columns : Infinity, hasColours: NO_COLOR === undefined && TERM !== 'dumb' };
}

export function paint({ hasColours }: Screen, text: string, colour: Colour | undefined): string {
  return hasColours && colour !== undefined && text !== '' ? `\u001b[${CODES[colour]}m${text}\u001b[0m` : text;
}
