import { extname, basename } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { parse as parseEnv } from 'dotenv';
import { isMap, isScalar, parseDocument, type Document, type YAMLMap } from 'yaml';

export const CONFIG_FORMATS = ['json', 'env', 'yaml'] as const;
export type ConfigFormat = (typeof CONFIG_FORMATS)[number];

/** What a node authenticates with. */
export interface NodePair {
  readonly nodeId: string;
  readonly apiKey: string;
}

/** A file that cannot be read as its format says. The message never quotes the file: it may hold secrets. */
export class UnreadableConfig extends Error {}

type Settings = Readonly<Record<string, unknown>>;
type Edit = readonly [from: number, to: number, text: string];

/** The names that the pair has in a file of each format. */
const NAMES = {
  json: ['node_id', 'api_key'],
  yaml: ['node_id', 'api_key'],
  env: ['NODE_ID', 'API_KEY'],
} as const satisfies Record<ConfigFormat, readonly [string, string]>;

/** @returns the format that a file's name tells; undefined when it tells none */
export function formatOf(path: string): ConfigFormat | undefined {
  const name = basename(path);
  if (/^\.env(\.|$)/.test(name)) return 'env';
  const formats: Readonly<Record<string, ConfigFormat>> = {
    '.json': 'json',
    '.env': 'env',
    '.yaml': 'yaml',
    '.yml': 'yaml',
  };
  return formats[extname(name).toLowerCase()];
}

/** @throws {UnreadableConfig} */
export function readPair(text: string, format: ConfigFormat): Partial<NodePair> {
  const [idName, keyName] = NAMES[format];
  const settings = settingsOf(text, format);
  const filled = (value: unknown): value is string => typeof value === 'string' && value !== '';
  const [nodeId, apiKey] = [settings[idName], settings[keyName]];
  return { ...(filled(nodeId) && { nodeId }), ...(filled(apiKey) && { apiKey }) };
}

/**
 * Sets the pair in a file's text and leaves every other character as it is: comments, order, spaces, numbers.
 * @throws {UnreadableConfig} also when that cannot be done without touching something else
 */
export function withPair(text: string, format: ConfigFormat, { nodeId, apiKey }: NodePair): string {
  const before = settingsOf(text, format);
  const [idName, keyName] = NAMES[format];
  const values = { [idName]: nodeId, [keyName]: apiKey };
  const changed = format === 'env' ? withVariables(text, values) : withMembers(text, format, values);
  if (!isDeepStrictEqual(settingsOf(changed, format), { ...before, ...values }))
    throw new UnreadableConfig(`it is written in a way in which ${idName} and ${keyName} cannot be set safely`);
  return changed;
}

function settingsOf(text: string, format: ConfigFormat): Settings {
  if (format === 'env') return parseEnv(text);
  if (format === 'yaml') return (documentOf(text).toJS() as Settings | null) ?? {};
  try {
    const value: unknown = text.trim() === '' ? {} : JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Settings;
  } catch {
    throw new UnreadableConfig('it is no valid JSON');
  }
  throw new UnreadableConfig('it holds no JSON object');
}

function documentOf(text: string): Document.Parsed {
  // JSON may name a member twice; YAML may not, and says so.
  const document = parseDocument(text, { uniqueKeys: !text.trimStart().startsWith('{') });
  const [error] = document.errors;
  if (error) throw new UnreadableConfig(`it is no valid YAML (line ${error.linePos?.[0].line ?? 1}: ${error.code})`);
  const { contents } = document as { contents: unknown };
  if (contents !== null && !isMap(contents) && !(isScalar(contents) && contents.value === null))
    throw new UnreadableConfig('its top level is no mapping');
  return document;
}

function withVariables(text: string, values: Readonly<Record<string, string>>): string {
  let changed = text;
  for (const [name, value] of Object.entries(values)) {
    const assignment = new RegExp(
      `^([ \\t]*(?:export[ \\t]+)?${name}[ \\t]*=)(?:[ \\t]*(?:"[^"\\r\\n]*"|'[^'\\r\\n]*')|[^#\\r\\n]*?)([ \\t]*(?:#[^\\r\\n]*)?)$`,
      'gm',
    );
    const replaced = changed.replace(assignment, (_, start: string, comment: string) => start + value + comment);
    changed = assignment.test(changed) ? replaced : `${closed(changed)}${name}=${value}${lineEnd(text)}`;
  }
  return changed;
}

/** JSON is YAML too, whose parser tells where each value stands: only those characters are replaced. */
function withMembers(text: string, format: 'json' | 'yaml', values: Readonly<Record<string, string>>): string {
  const start = format === 'json' && text.trim() === '' ? `{}${lineEnd(text)}` : text;
  const { contents } = documentOf(start) as { contents: unknown };
  const map = isMap(contents) ? contents : undefined;
  const edits = Object.entries(values).flatMap(([name, value]) => valuesIn(map, name).map(replacement(start, value)));
  const missing = Object.entries(values).filter(([name]) => valuesIn(map, name).length === 0);
  if (missing.length > 0) edits.push(map?.flow ? addedToFlow(start, map, missing) : addedAtEnd(start, map, missing));
  return edits
    .sort(([left], [right]) => right - left)
    .reduce((changed, [from, to, added]) => changed.slice(0, from) + added + changed.slice(to), start);
}

function valuesIn(map: YAMLMap | undefined, name: string): (readonly [number, number])[] {
  const members = (map?.items ?? []).filter(({ key }) => isScalar(key) && key.value === name);
  return members.map(({ value }) => {
    const range = (value as { range?: readonly [number, number, number] } | null)?.range;
    if (!range) throw new UnreadableConfig(`its ${name} has no value that could be replaced`);
    return [range[0], range[1]];
  });
}

function replacement(text: string, value: string): (range: readonly [number, number]) => Edit {
  return ([from, to]) => {
    const isEmpty = from === to;
    const before = isEmpty && !/\s/.test(text[from - 1] ?? '') ? ' ' : '';
    const after = isEmpty && text[to] === '#' ? ' ' : '';
    const lineBreak = text.slice(from, to).endsWith('\n') ? lineEnd(text) : '';
    return [from, to, before + JSON.stringify(value) + after + lineBreak];
  };
}

function addedToFlow(text: string, map: YAMLMap, members: [string, string][]): Edit {
  const [open, end] = map.range ?? [0, 0];
  const [first, last] = [map.items[0], map.items.at(-1)] as { key: unknown; value: unknown }[];
  const added = members.map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`);
  const between = (separator: string): string => added.join(`,${separator}`);
  const eol = lineEnd(text);
  if (!first || !last) return [open + 1, end - 1, `${eol}  ${between(`${eol}  `)}${eol}`];
  const [firstAt] = (first.key as { range: number[] }).range as [number];
  const [, lastEnd] = ((last.value ?? last.key) as { range: number[] }).range as [number, number];
  const [indent] = /\r?\n[ \t]*$/.exec(text.slice(open, firstAt)) ?? [' '];
  return [lastEnd, lastEnd, `,${indent}${between(indent)}`];
}

function addedAtEnd(text: string, map: YAMLMap | undefined, members: [string, string][]): Edit {
  const [at] = map?.range ?? [0];
  const indent = text.slice(text.lastIndexOf('\n', at - 1) + 1, at);
  const lines = members.map(([name, value]) => `${indent}${name}: ${JSON.stringify(value)}${lineEnd(text)}`);
  return [text.length, text.length, `${text === closed(text) ? '' : lineEnd(text)}${lines.join('')}`];
}

function lineEnd(text: string): string {
  return text.includes('\r\n') ? '\r\n' : '\n';
}

/** A text that another line can follow. */
function closed(text: string): string {
  return text === '' || text.endsWith('\n') ? text : `${text}${lineEnd(text)}`;
}
