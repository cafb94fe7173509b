import { extname, basename } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { parse as parseEnv } from 'dotenv';
import { applyEdits, modify } from 'jsonc-parser';
import { isMap, isScalar, parseDocument, Scalar, type Document } from 'yaml';
import { detectLineEnd, setVariable } from '../../config/env-file.js';

export const CONFIG_FORMATS = ['json', 'env', 'yaml'] as const;
export type ConfigFormat = (typeof CONFIG_FORMATS)[number];

/** The credential of a node. */
export interface NodePair {
  readonly nodeId: string;
  readonly apiKey: string;
}

/** A file that is not valid in its format. The message never quotes the file: it may hold secrets. */
export class UnreadableConfigError extends Error {
  override readonly name = 'UnreadableConfigError';
}

type Settings = Readonly<Record<string, unknown>>;

/** The names of the pair in a file of each format. */
const NAMES = {
  json: ['node_id', 'api_key'],
  yaml: ['node_id', 'api_key'],
  env: ['NODE_ID', 'API_KEY'],
} as const satisfies Record<ConfigFormat, readonly [string, string]>;

/** @returns the format by the file's name; undefined when the name has none of the known extensions */
export function detectFormat(path: string): ConfigFormat | undefined {
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

/** @throws {UnreadableConfigError} */
export function readPair(text: string, format: ConfigFormat): Partial<NodePair> {
  const [idName, keyName] = NAMES[format];
  const settings = parseSettings(text, format);
  const isFilled = (value: unknown): value is string => typeof value === 'string' && value !== '';
  const [nodeId, apiKey] = [settings[idName], settings[keyName]];
  return { ...(isFilled(nodeId) && { nodeId }), ...(isFilled(apiKey) && { apiKey }) };
}

/**
 * Sets the pair in a file's text and keeps everything else: comments, order, anchors, numbers. YAML may be reformatted.
 * @throws {UnreadableConfigError} also when that cannot be done without changing something else
 */
export function setPair(text: string, format: ConfigFormat, { nodeId, apiKey }: NodePair): string {
  const before = parseSettings(text, format);
  const [idName, keyName] = NAMES[format];
  const values = { [idName]: nodeId, [keyName]: apiKey };
  const changed = EDITS[format](text, values);
  if (!isDeepStrictEqual(parseSettings(changed, format), { ...before, ...values }))
    throw new UnreadableConfigError(`it is written in a way in which ${idName} and ${keyName} cannot be set safely`);
  return changed;
}

function parseSettings(text: string, format: ConfigFormat): Settings {
  if (format === 'env') return parseEnv(text);
  if (format === 'yaml') return (parseYaml(text).toJS() as Settings | null) ?? {};
  try {
    const value: unknown = text.trim() === '' ? {} : JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Settings;
  } catch {
    throw new UnreadableConfigError('it is not valid JSON');
  }
  throw new UnreadableConfigError('it is not a JSON object');
}

function parseYaml(text: string): Document.Parsed {
  const document = parseDocument(text);
  const [error] = document.errors;
  if (error)
    throw new UnreadableConfigError(`it is not valid YAML (line ${error.linePos?.[0].line ?? 1}: ${error.code})`);
  const { contents } = document as { contents: unknown };
  if (contents !== null && !isMap(contents) && !(isScalar(contents) && contents.value === null))
    throw new UnreadableConfigError('its top level is not a mapping');
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
    const document = parseYaml(text);
    for (const [name, value] of Object.entries(values))
      document.set(name, toQuotedScalar(value, document.get(name, true)));
    const edited = document.toString({ lineWidth: 0 });
    return detectLineEnd(text) === '\r\n' ? edited.replaceAll(/\r?\n/g, '\r\n') : edited;
  },
};

/** Quoted, because a generated value may look like a number; with the comment of the value that it replaces. */
function toQuotedScalar(value: string, replaced: unknown): Scalar {
  const scalar = new Scalar(value);
  scalar.type = Scalar.QUOTE_DOUBLE;
  if (isScalar(replaced) && replaced.comment) scalar.comment = replaced.comment;
  return scalar;
}
