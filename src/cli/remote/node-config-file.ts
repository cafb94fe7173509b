import { accessSync, constants } from 'node:fs';
import { resolve, extname, basename } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { parse as parseEnv } from 'dotenv';
import { applyEdits, modify } from 'jsonc-parser';
import { isMap, isScalar, parseDocument, Scalar, type Document } from 'yaml';
import {
  NotRegularFileError,
  readRegular,
  rehearseReplacement,
  replaceFile,
  type FoundFile,
} from '../../foundation/common/durable-file.js';
import { describeFileReason } from '../failures.js';
import { CommandFailedError } from '../terminal.js';
import { detectLineEnd, setVariable } from '../../foundation/config/env-file.js';

/** As long as a real pair, so that a rehearsal needs as much disk space. */
const SAMPLE: NodePair = { nodeId: '0'.repeat(36), apiKey: '0'.repeat(57) };

/** A node's configuration file. The CLI changes only node_id and api_key in it. */
export class ConfigFile {
  private constructor(
    readonly path: string,
    private readonly format: ConfigFormat,
    /** The pair in the file when it was opened. */
    readonly pair: Partial<NodePair>,
  ) {}

  /**
   * Opens a file, which may not exist yet, and checks that it can be written.
   * @throws {CommandFailedError} when it cannot be read, parsed or replaced; nothing was changed then
   */
  static open(path: string, format = detectFormat(path)): ConfigFile {
    if (!format)
      throw new CommandFailedError(
        `The format of ${path} cannot be told from its name. Add --format json, env or yaml.`,
      );
    const absolute = resolve(path);
    try {
      const found = readRegular(absolute);
      if (found) accessSync(absolute, constants.W_OK);
      rehearseReplacement(absolute, (existing) => Buffer.from(setPair(decode(existing), format, SAMPLE)));
      return new ConfigFile(absolute, format, readPair(decode(found), format));
    } catch (error) {
      throw new CommandFailedError(`${path} cannot be used: ${describeReason(error)}. Nothing was changed.`);
    }
  }

  /**
   * Sets the pair in the present content of the file: atomic and durable.
   * @throws {CommandFailedError} when that fails; the file is unchanged then
   */
  write(pair: NodePair): void {
    try {
      replaceFile(this.path, (found) => Buffer.from(setPair(decode(found), this.format, pair)));
    } catch (error) {
      throw new CommandFailedError(`${this.path} could not be written: ${describeReason(error)}. It is unchanged.`);
    }
  }
}

function decode(found: FoundFile | undefined): string {
  if (!found) return '';
  const text = found.bytes.toString('utf8');
  if (!Buffer.from(text).equals(found.bytes)) throw new UnreadableConfigError('it is not valid UTF-8');
  return text;
}

/** Reduces other errors to their code, because the message may quote secrets of the file. */
function describeReason(error: unknown): string {
  if (error instanceof UnreadableConfigError) return error.message;
  if (error instanceof NotRegularFileError)
    return `it is ${error.kind}${error.kind === 'a symbolic link' ? '; name the file that it points to' : ''}`;
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return 'its folder does not exist';
  return describeFileReason(error) ?? `the operating system refused it (${code ?? 'no error code'})`;
}

const CONFIG_FORMATS = ['json', 'env', 'yaml'] as const;
export type ConfigFormat = (typeof CONFIG_FORMATS)[number];

export interface NodePair {
  readonly nodeId: string;
  readonly apiKey: string;
}

/** The file is not valid in its format. The message never quotes the file, which may hold secrets. */
class UnreadableConfigError extends Error {
  override readonly name = 'UnreadableConfigError';
}

type Settings = Readonly<Record<string, unknown>>;

/** The names of the pair's parts in each format. */
const NAMES = {
  json: ['node_id', 'api_key'],
  yaml: ['node_id', 'api_key'],
  env: ['NODE_ID', 'API_KEY'],
} as const satisfies Record<ConfigFormat, readonly [string, string]>;

/** @returns undefined when the file's name has no known extension */
export function detectFormat(path: string): ConfigFormat | undefined {
  const name = basename(path);
  if (/^\.env(\.|$)/.test(name)) return 'env';
  const extension = extname(name).toLowerCase().slice(1);
  return extension === 'yml' ? 'yaml' : CONFIG_FORMATS.find((format) => format === extension);
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
 * Sets the pair in a file's text and keeps comments, order, anchors and numbers. YAML may be reformatted.
 * @throws {UnreadableConfigError} also when setting the pair would change something else
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
  if (format === 'yaml') return readYaml(parseYaml(text));
  try {
    const value: unknown = text.trim() === '' ? {} : JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Settings;
  } catch {
    throw new UnreadableConfigError('it is not valid JSON');
  }
  throw new UnreadableConfigError('it is not a JSON object');
}

function readYaml(document: Document.Parsed): Settings {
  try {
    return (document.toJS() as Settings | null) ?? {};
  } catch {
    throw new UnreadableConfigError('its aliases cannot be resolved');
  }
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

/** Quoted, because a generated value may look like a number. Keeps the comment of the replaced value. */
function toQuotedScalar(value: string, replaced: unknown): Scalar {
  const scalar = new Scalar(value);
  scalar.type = Scalar.QUOTE_DOUBLE;
  if (isScalar(replaced) && replaced.comment) scalar.comment = replaced.comment;
  return scalar;
}
