// The texts of .env.example and docs/configuration.md about variables, made from the schema in
// src/foundation/config/variables.ts.
import type { z } from 'zod';
import { SCHEMAS } from '../src/cli/platform/platform-map.js';
import { toFileVariable } from '../src/foundation/config/environment.js';
import type { Section, Variable } from '../src/foundation/config/variable-kinds.js';
import { RULES, SECTIONS } from '../src/foundation/config/variables.js';
import { replacePart } from './marked-part.js';
import { wrapItem, wrapParagraph } from './wrapped.js';

const WIDTH = 118;
const HEADING = `\
# Every variable that the service reads, with its default. Copy this file to .env and uncomment what you change.
# Written by npm run docs:configuration from src/foundation/config/; do not edit it here.
#
# Outside production .env is read from the folder you start in; a variable of the process wins over the file.
# In production (see NODE_ENV) .env is not read: give the service real environment variables.
# An empty value counts as unset. A bad value stops the start and is named.
`;

export function toEnvExample(): string {
  return [HEADING, ...SECTIONS.map(toExampleSection)].join('\n');
}

export function renewConfigurationPage(page: string): string {
  const variables = SECTIONS.map(toPageSection).join('\n\n');
  const rules = RULES.map(({ name, requirement }) => wrapItem(`\`${name}\` ${quoteNames(requirement)}.`)).join('\n');
  return replacePart(replacePart(page, 'variables', variables), 'rules', rules);
}

/** @returns the text of each file with a JSON Schema, by its path */
export function listSchemas(): Readonly<Record<string, string>> {
  const toText = (schema: object): string => `${JSON.stringify(schema, null, 2)}\n`;
  return { 'platform.schema.json': toText(SCHEMAS.map()), 'docs/variables.schema.json': toText(SCHEMAS.variables()) };
}

function toExampleSection({ title, introduction, variables, note }: Section): string {
  const paragraphs = [
    `# --- ${title} ---`.padEnd(WIDTH - 1, '-'),
    ...(introduction === undefined ? [] : [toComment(introduction)]),
    ...Object.entries(variables).map(([name, variable]) => toExample(name, variable)),
    ...(note === undefined ? [] : [toComment(note)]),
  ];
  return paragraphs.map((paragraph) => `${paragraph}\n`).join('\n');
}

function toExample(name: string, { type, text, defaultText, example = '', mayBeFile }: Variable): string {
  const ends = [
    readBounds(type).replaceAll('–', ' to ').replaceAll('…', '...'),
    ...(defaultText === undefined ? [] : [`default: ${defaultText}`]),
  ];
  const value = readDefault(type) ?? example;
  const lines = [toComment(`${text} (${ends.join('; ')})`), `# ${name}=${value}`];
  return [...lines, ...(mayBeFile ? [`# ${toFileVariable(name)}=`] : [])].join('\n');
}

function toPageSection({ title, introduction, variables, note }: Section): string {
  const items = Object.entries(variables).map(([name, variable]) => toItem(name, variable));
  const [before, after] = [introduction, note].map((text) => text && wrapParagraph(quoteNames(text)));
  return [`### ${title}`, before, items.join('\n'), after].filter((part) => part !== undefined).join('\n\n');
}

function toItem(name: string, { type, defaultText = 'none', mayBeFile, text }: Variable): string {
  const value = readDefault(type);
  const initial = typeof value === 'string' ? `\`${value}\`` : `${value ?? defaultText}`;
  const names = mayBeFile ? `\`${name}\` or \`${toFileVariable(name)}\`` : `\`${name}\``;
  return wrapItem(`${names} (default: ${initial}; ${readBounds(type)}): ${quoteNames(text)}`);
}

/** Marks the names of variables as code. */
function quoteNames(text: string): string {
  const names = SECTIONS.flatMap(({ variables }) => Object.keys(variables)).join('|');
  return text.replace(new RegExp(`(?<![\\w\`:])(${names})(?![\\w\`])`, 'g'), '`$&`');
}

/** Breaks a Markdown text into lines of a comment, and replaces a link by the page that it leads to. */
function toComment(text: string): string {
  const plain = text
    .replace(/\[([^\]]+)\]\(([^)#]+)[^)]*\)/g, (_link, words: string, page: string) =>
      page.endsWith(words) ? `docs/${page}` : `${words} (docs/${page})`,
    )
    .replaceAll('`', '');
  const width = WIDTH - '# '.length;
  const lines = plain.match(new RegExp(`\\S.{0,${width - 2}}\\S(?=\\s|$)|\\S+`, 'g')) ?? [];
  return lines.map((line) => `# ${line}`).join('\n');
}

/** The parts of zod's definitions that wrap another type. */
interface Definition {
  readonly defaultValue?: string | number;
  readonly innerType?: z.ZodType;
  readonly in?: z.ZodType;
}

/** A type and the types that it wraps, from the outside. */
function unwrap(type: z.ZodType): z.ZodType[] {
  const { innerType, in: input } = type.def as Definition;
  const inner = innerType ?? input;
  return [type, ...(inner ? unwrap(inner) : [])];
}

/** The default as an operator writes it, before it is transformed. */
function readDefault(type: z.ZodType): string | number | undefined {
  return unwrap(type)
    .map(({ def }) => (def as Definition).defaultValue)
    .find((value) => value !== undefined);
}

function readBounds(type: z.ZodType): string {
  const bounds = unwrap(type)
    .map((each) => each.meta()?.bounds)
    .find((value) => value !== undefined);
  if (typeof bounds !== 'string') throw new Error('A type of src/foundation/config/variable-kinds.ts has no bounds.');
  return bounds;
}
