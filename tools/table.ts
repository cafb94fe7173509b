export type Cell = string | number;

/** Prints rows as a Markdown table; the first column is text, the others are figures. */
export function printTable(head: readonly string[], rows: readonly (readonly Cell[])[]): void {
  printRow(head);
  printRow(head.map((_, index) => (index === 0 ? '---' : '---:')));
  for (const row of rows) printRow(row);
}

/** A figure with a number of digits after the point, or a dash where there is none. */
export function formatFigure(value: number | undefined, digits = 0): string {
  return value !== undefined && Number.isFinite(value) ? value.toFixed(digits) : '–';
}

function printRow(cells: readonly Cell[]): void {
  console.log(`| ${cells.join(' | ')} |`);
}
