/** Replaces what is between the two marks of a generated part of a page. */
export function replacePart(page: string, name: string, text: string): string {
  const [start, end] = [`<!-- ${name}: generated -->\n`, `\n<!-- end of ${name} -->`];
  const [before, rest] = page.split(start);
  const [, after] = rest?.split(end) ?? [];
  if (before === undefined || after === undefined) throw new Error(`The page has no marks for "${name}".`);
  return `${before}${start}\n${text}\n${end}${after}`;
}
