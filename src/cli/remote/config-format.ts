import { extname, basename } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { parse as parseEnv } from 'dotenv';
import { applyEdits, modify } from 'jsonc-parser';
import { isMap, isScalar, parseDocument, Scalar, type Document } from 'yaml';
import { detectLineEnd, setVariable } from '../../config/env-file.js';

export const CONFIG_FORMATS = ['json', 'env', 'yaml'] as const;
export type ConfigFormat = (typeof CONFIG_FORMATS)[number];

/** What a node authenticates with. */
export interface NodePair {
  readonly nodeId: string;
  readonly apiKey: string;
}

/** A file that is not valid in its format. The message never quotes the file: it may hold secrets. */
export class UnreadableConfig extends Error {
  override readonly name = 'UnreadableConfig';
}

type Settings = Readonly<Record<string, unknown>>;

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
 * Sets the pair in a file's text and keeps everything else: comments, order, anchors, numbers. YAML may be spaced anew.
 * @throws {UnreadableConfig} also when that cannot be done without touching something else
 */
export function withPair(text: string, format: ConfigFormat, { nodeId, apiKey }: NodePair): string {
  const before = settingsOf(text, format);
  const [idName, keyName] = NAMES[format];
  const values = { [idName]: nodeId, [keyName]: apiKey };
  const changed = EDITS[format](text, values);
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
    throw new UnreadableConfig('it is not valid JSON');
  }
  throw new UnreadableConfig('it is not a JSON object');
}

function documentOf(text: string): Document.Parsed {
  const document = parseDocument(text);
  const [error] = document.errors;
  if (error) throw new UnreadableConfig(`it is not valid YAML (line ${error.linePos?.[0].line ?? 1}: ${error.code})`);
  const { contents } = document as { contents: unknown };
  if (contents !== null && !isMap(contents) && !(isScalar(contents) && contents.value === null))
    throw new UnreadableConfig('its top level is not a mapping');
  return document;
}

type Edit = (text: string, values: Readonly<Record<string, string>>) => string;

const EDITS: Readonly<Record<ConfigFormat, Edit>> = {
  env: (text, values) =>
    Object.entries(values).reduce((edited, [name, value]) => setVariable(edited, name, value), text),
  json: (text, values) => {
    const start = text.trim() === '' ? `{${detectLineEnd(text)}}${detectLineEnd(text)}` : text;
    const style = { insertSpaces: !/\n\t/.test(text), tabSize: 2, eol: detectLineEnd(text) };
    const options = /\n/.test(start) ? { formattingOptions: style } : {};
    return Object.entries(values).reduce(
      (edited, [name, value]) => applyEdits(edited, modify(edited, [name], value, options)),
      start,
    );
  },
  yaml: (text, values) => {
    const document = documentOf(text);
    for (const [name, value] of Object.entries(values))
      document.set(name, quotedScalar(value, document.get(name, true)));
    const edited = document.toString({ lineWidth: 0 });
    return detectLineEnd(text) === '\r\n' ? edited.replaceAll(/\r?\n/g, '\r\n') : edited;
  },
};

/** Quoted, because a generated value may look like a number; with the comment of the value that it replaces. */
function quotedScalar(value: string, replaced: unknown): Scalar {
  const scalar = new Scalar(value);
  scalar.type = Scalar.QUOTE_DOUBLE;
  if (isScalar(replaced) && replaced.comment) scalar.comment = replaced.comment;
  return scalar;
}
