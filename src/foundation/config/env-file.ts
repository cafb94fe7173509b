import { readFileSync, statSync, type Stats } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { parse } from 'dotenv';
import { createFile, isOpenToOthers, readRegular, rehearseReplacement, replaceFile } from '../common/durable-file.js';

const PRIVATE_MODE = 0o600;
const MAX_NAMED_LINES = 5;
/** Group 1 is the name, group 2 the value with its quotes. A quoted value may span lines. */
const ASSIGNMENT =
  /^[ \t]*(?:export[ \t]+)?([\w.-]+)[ \t]*=[ \t]*('(?:\\'|[^'])*'|"(?:\\"|[^"])*"|`(?:\\`|[^`])*`|[^#\r\n]*)/dgm;
const NEEDS_NO_QUOTES = /^[\w.:/@%+=,?-]+$/;

class UnusableFileError extends Error {
  override readonly name = 'UnusableFileError';
}

export class FileChangedError extends Error {
  override readonly name = 'FileChangedError';

  constructor(path: string) {
    super(`${path} was changed by another process in the meantime`);
  }
}

/** Edits variables of an environment file and keeps comments, order, line ends and other variables byte for byte. */
export class EnvFile {
  /** Latin-1, so that each byte is one character and invalid UTF-8 survives. */
  private text: string;
  private readonly changed = new Set<string>();

  private constructor(
    readonly path: string,
    private original: Buffer | undefined,
    private readonly stats: Stats | undefined,
  ) {
    this.text = original?.toString('latin1') ?? '';
  }

  /** @throws {NotRegularFileError} for a symbolic link, a directory or anything else that is not a regular file */
  static read(path: string): EnvFile {
    const found = readRegular(path);
    return new EnvFile(path, found?.bytes, found?.stats);
  }

  get exists(): boolean {
    return this.original !== undefined;
  }

  get isOpenToOthers(): boolean {
    return this.stats !== undefined && isOpenToOthers(this.stats);
  }

  get mode(): string {
    return formatMode(this.stats ?? { mode: PRIVATE_MODE });
  }

  get changes(): string[] {
    return [...this.changed];
  }

  get needsWriting(): boolean {
    return this.changed.size > 0 || this.isOpenToOthers;
  }

  /** The value as this service reads it, for which an empty value is unset. */
  get(name: string): string | undefined {
    const value = parse(this.text)[name];
    return value === undefined || value === '' ? undefined : Buffer.from(value, 'latin1').toString('utf8');
  }

  /** Replaces the value of the last assignment, which is the one that counts, or appends a line. */
  set(name: string, value: string): void {
    if (this.get(name) === value) return;
    const bytes = Buffer.from(value, 'utf8').toString('latin1');
    const text = setVariable(this.text, name, bytes);
    // Parses the edited file: this variable must have the new value, and all others must be unchanged.
    if (!isDeepStrictEqual(parse(text), { ...parse(this.text), [name]: bytes }))
      throw new UnusableFileError(`${name} cannot be written into ${this.path}`);
    this.text = text;
    this.changed.add(name);
  }

  /** Empties the value and keeps the line, so that a comment on it stays. */
  remove(name: string): void {
    if (this.get(name) !== undefined) this.set(name, '');
  }

  /**
   * Creates or replaces the file atomically, also across a power cut. The object may be changed and written again.
   * @throws {FileChangedError} when another process created or changed the file since it was read
   */
  write(heading: string): void {
    const text = this.exists ? this.text : `${heading}\n${this.text}`;
    const bytes = Buffer.from(text, 'latin1');
    const { original, path } = this;
    if (original)
      replaceFile(path, (found) => {
        if (!found || !original.equals(found.bytes)) throw new FileChangedError(path);
        return bytes;
      });
    else if (!createFile(path, bytes)) throw new FileChangedError(path);
    this.text = text;
    this.original = bytes;
  }

  /** Fails where {@link write} would, so that the caller does nothing that depends on an unwritten file. */
  rehearseWrite(): void {
    rehearseReplacement(this.path, () => Buffer.from(this.text, 'latin1'));
  }
}

/** @throws {UnusableFileError} */
export function setVariable(text: string, name: string, value: string): string {
  const quoted = quoteValue(value);
  if (quoted === undefined) throw new UnusableFileError(`the value of ${name} cannot stand in an environment file`);
  const last = [...text.matchAll(ASSIGNMENT)].filter((match) => match[1] === name).at(-1);
  const range = last?.indices?.[2];
  if (last && range) {
    const [from] = range;
    const rest = text.slice(from + (last[2] ?? '').trimEnd().length);
    return `${text.slice(0, from)}${quoted}${rest.startsWith('#') ? ' ' : ''}${rest}`;
  }
  const lineEnd = detectLineEnd(text);
  const isComplete = text === '' || text.endsWith('\n');
  return `${text}${isComplete ? '' : lineEnd}${name}=${quoted}${lineEnd}`;
}

/** @returns what an operator should mend in an environment file, never its content, which may be secret */
export function* inspectEnvFile(path: string): Generator<string> {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (!stats) return;
  // Windows has no modes, and reports every file as open.
  if (process.platform !== 'win32' && isOpenToOthers(stats))
    yield `other users of this machine may read ${path} (mode ${formatMode(stats)}), which holds secrets. Type: chmod 600 ${path}`;
  const lines = findStrayLines(readFileSync(path, 'utf8'));
  if (lines.length === 0) return;
  const numbers = lines.slice(0, MAX_NAMED_LINES).join(', ') + (lines.length > MAX_NAMED_LINES ? ' …' : '');
  yield `${path} sets nothing in line ${numbers}: write NAME=value there, or # in front of a comment`;
}

/** @returns the numbers of the lines that are neither blank nor a comment nor an assignment */
function findStrayLines(text: string): number[] {
  // The lines of a quoted value are parts of its assignment.
  const lines = text.replace(ASSIGNMENT, (match) => `#${match.replace(/[^\n]/g, '')}`).split('\n');
  const isStray = (line: string): boolean => !/^\s*(#|$)/.test(line) && Object.keys(parse(line)).length === 0;
  return lines.flatMap((line, index) => (isStray(line) ? [index + 1] : []));
}

function formatMode({ mode }: Pick<Stats, 'mode'>): string {
  return (mode & 0o777).toString(8).padStart(4, '0');
}

export function detectLineEnd(text: string): string {
  return text.includes('\r\n') ? '\r\n' : '\n';
}

/**
 * Shells read these files too: they would run `$(…)` between double quotes, and do not treat backticks as quotes.
 * @returns undefined when no form means the same to dotenv and to a shell
 */
function quoteValue(value: string): string | undefined {
  if (NEEDS_NO_QUOTES.test(value)) return value;
  if (/\p{Cc}/u.test(value)) return undefined;
  if (!value.includes("'")) return `'${value}'`;
  return /["$`\\]/.test(value) ? undefined : `"${value}"`;
}
