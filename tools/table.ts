type Cell = string | number;

/** Prints rows as a Markdown table; the first column is text, the others are figures. */
export function printTable(head: readonly string[], rows: readonly (readonly Cell[])[]): void {
  printHead(head);
  for (const row of rows) printRow(row);
}

/** Prints the head of a table whose rows come later; columns outside of `textColumns` are figures. */
export function printHead(head: readonly string[], textColumns: readonly string[] = head.slice(0, 1)): void {
  printRow(head);
  printRow(head.map((name) => (textColumns.includes(name) ? '---' : '---:')));
}

export function printRow(cells: readonly Cell[]): void {
  console.log(`| ${cells.join(' | ')} |`);
}

/** A figure with a number of digits after the point, or a dash where there is none. */
export function formatFigure(value: number | undefined, digits = 0): string {
  return value !== undefined && Number.isFinite(value) ? value.toFixed(digits) : '–';
}
