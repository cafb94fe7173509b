// The Go code of the documents, for the module in documents/ that compiles it.
import { readdirSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';

const README = 'clients/go/README.md';
const PACKAGE_COMMENTS = ['clients/go/doc.go', 'clients/go/platformauthgrpc/interceptors.go'];
const FENCED = /^( *)```go\n([^]*?)^ *```$/gm;
const ANY_FENCED = /^ *```[^]*?^ *```$/gm;
/** A call of something in a package or a variable, such as `auth.RequireUser()`. */
const CALL = /`((?:\w+\.)+\w+\([^`]*\))`/g;
/** Indented lines of the comment of a package, with empty ones between them. */
const INDENTED = /(?:^\/\/\t.*\n(?:^\/\/\n(?=\/\/\t))?)+/gm;
const DECLARED = /^(\w+(?:, \w+)*) := /gm;

interface Code {
  readonly file: string;
  readonly line: number;
  readonly text: string;
}

/** @returns declarations for the package of documents/: all code blocks, and the calls in the text of the README */
export function collectGoCode(): string {
  const pages = readdirSync('docs', { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.md'));
  const found = [
    ...[README, ...pages.map((name) => `docs/${name}`)].flatMap(readBlocks),
    ...readCalls(README),
    ...PACKAGE_COMMENTS.flatMap(readComment),
  ];
  return found.map(toDeclaration).join('\n');
}

function readBlocks(file: string): Code[] {
  const page = readFileSync(file, 'utf8');
  return [...page.matchAll(FENCED)].map(({ index, 1: indent = '', 2: block = '' }) => {
    const text = block.replaceAll(new RegExp(`^${indent}`, 'gm'), '');
    return { file, line: countLines(page, index) + 1, text };
  });
}

function readCalls(file: string): Code[] {
  const page = readFileSync(file, 'utf8').replaceAll(ANY_FENCED, (block) => block.replaceAll(/./g, ' '));
  return [...page.matchAll(CALL)].map(({ index, 1: text = '' }) => ({ file, line: countLines(page, index), text }));
}

function readComment(file: string): Code[] {
  const source = readFileSync(file, 'utf8');
  const comment = source.slice(0, source.search(/^package /m));
  return [...comment.matchAll(INDENTED)].map(({ 0: lines, index }) => {
    const text = lines.replaceAll(/^\/\/\t?/gm, '');
    return { file, line: countLines(comment, index), text };
  });
}

function countLines(text: string, end: number): number {
  return text.slice(0, end).split('\n').length;
}

/** What does not compile is reported at its place in the document. */
function toDeclaration({ file, line, text }: Code): string {
  const located = `//line ${resolve(file)}:${line}\n${text}\n`;
  if (/^(?:func|type) /m.test(text)) return located;
  const names = [...text.matchAll(DECLARED)].flatMap(([, list = '']) => list.split(', '));
  // A document need not use what it declares.
  return `func _() {\n${located}${names.map((name) => `_ = ${name}\n`).join('')}}\n`;
}
