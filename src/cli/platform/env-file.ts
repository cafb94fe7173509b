import type { Stats } from 'node:fs';
import { parse } from 'dotenv';
import { readRegular, replaceFile, type FoundFile } from '../durable-file.js';

const PRIVATE_MODE = 0o600;
const OF_OTHERS = 0o077;
/** Group 1 is the name, group 2 the value with its quotes. What a quoted value spans is no line of its own. */
const ASSIGNMENT =
  /^[ \t]*(?:export[ \t]+)?([\w.-]+)[ \t]*=[ \t]*('(?:\\'|[^'])*'|"(?:\\"|[^"])*"|`(?:\\`|[^`])*`|[^#\r\n]*)/dgm;
const NEEDS_NO_QUOTES = /^[\w.:/@%+=,~?&-]+$/;

/** A variable cannot be written into the file, or the file changed under our hands. */
export class UnusableFile extends Error {}

/**
 * An environment file in which some variables are ours and all else is its owner's: comments, order, line ends and
 * unknown variables stay as they are, byte for byte.
 */
export class EnvFile {
  /** One character a byte, so that bytes that are no UTF-8 survive. */
  private text: string;
  private readonly changed = new Set<string>();

  private constructor(
    readonly path: string,
    private readonly original: Buffer | undefined,
    private readonly stats: Stats | undefined,
  ) {
    this.text = original?.toString('latin1') ?? '';
  }

  /**
   * @param path of a file that need not exist
   * @throws {NoRegularFile} for a symbolic link, a directory or anything else that is no regular file
   */
  static read(path: string): EnvFile {
    const found = readRegular(path);
    return new EnvFile(path, found?.bytes, found?.stats);
  }

  get exists(): boolean {
    return this.original !== undefined;
  }

  /** Whether anybody but its owner may read or write it. */
  get isOpenToOthers(): boolean {
    return this.stats !== undefined && (this.stats.mode & OF_OTHERS) !== 0;
  }

  /** The permission bits in octal. */
  get mode(): string {
    return ((this.stats?.mode ?? PRIVATE_MODE) & 0o777).toString(8).padStart(4, '0');
  }

  /** Names of the variables that were given another value since the file was read. */
  get changes(): string[] {
    return [...this.changed];
  }

  get needsWriting(): boolean {
    return this.changed.size > 0 || this.isOpenToOthers;
  }

  /** The value as a service reads it. An empty one counts as unset. */
  get(name: string): string | undefined {
    const value = valuesOf(this.text)[name];
    return value === undefined || value === '' ? undefined : Buffer.from(value, 'latin1').toString('utf8');
  }

  /** Changes the value where it stands (where several do, the last one counts), or appends a line. */
  set(name: string, value: string): void {
    if (this.get(name) === value) return;
    const before = valuesOf(this.text);
    const bytes = Buffer.from(value, 'utf8').toString('latin1');
    const text = this.withValue(name, quoted(bytes));
    // Whatever stands in the file: what is read from it afterwards must be what was meant.
    const after = valuesOf(text);
    const isUntouched = Object.keys({ ...before, ...after }).every((key) => key === name || before[key] === after[key]);
    if (after[name] !== bytes || !isUntouched) throw new UnusableFile(`${name} cannot be written into ${this.path}`);
    this.text = text;
    this.changed.add(name);
  }

  /**
   * Replaces the file as a whole: whoever reads it, and whenever the power goes, finds the old one or the new one.
   * @throws {UnusableFile} when somebody else changed it since it was read
   */
  write(heading: string): void {
    const text = this.exists ? this.text : `${heading}\n${this.text}`;
    replaceFile(this.path, (found) => {
      this.refuseForeignChange(found);
      return Buffer.from(text, 'latin1');
    });
  }

  private withValue(name: string, value: string): string {
    const last = [...this.text.matchAll(ASSIGNMENT)].filter((match) => match[1] === name).at(-1);
    const range = last?.indices?.[2];
    if (last && range) {
      const [from] = range;
      const until = from + (last[2] ?? '').trimEnd().length;
      const rest = this.text.slice(until);
      return `${this.text.slice(0, from)}${value}${rest.startsWith('#') ? ' ' : ''}${rest}`;
    }
    const lineEnd = this.text.includes('\r\n') ? '\r\n' : '\n';
    const isComplete = this.text === '' || this.text.endsWith('\n');
    return `${this.text}${isComplete ? '' : lineEnd}${name}=${value}${lineEnd}`;
  }

  private refuseForeignChange(now: FoundFile | undefined): void {
    const isSame = now === undefined ? this.original === undefined : this.original?.equals(now.bytes) === true;
    if (!isSame) throw new UnusableFile(`${this.path} was changed by somebody else in the meantime`);
  }
}

function valuesOf(text: string): Record<string, string | undefined> {
  return parse(text);
}

function quoted(value: string): string {
  if (NEEDS_NO_QUOTES.test(value)) return value;
  const quote = ["'", '"', '`'].find((mark) => !value.includes(mark)) ?? "'";
  return quote + value + quote;
}
