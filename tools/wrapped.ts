/** The longest line of a generated part of a page. */
const WIDTH = 118;

/** Breaks Markdown into lines, except inside code and links; the lines after the first are indented by two. */
export function wrapItem(text: string): string {
  return wrap(`- ${text}`, '  ');
}

/** Breaks a paragraph into lines. */
export function wrapParagraph(text: string): string {
  return wrap(text, '');
}

function wrap(text: string, indent: string): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.match(/(?:`[^`]*`|[^\s`])+/g) ?? []) {
    if (line.trim() !== '' && `${line} ${word}`.length > WIDTH) {
      lines.push(line);
      line = `${indent}${word}`;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  return [...lines, line].join('\n');
}
