import { accessSync, constants } from 'node:fs';
import { resolve } from 'node:path';
import { formatOf, readPair, UnreadableConfig, withPair, type ConfigFormat, type NodePair } from './config-format.js';
import {
  NotRegularFileError,
  readRegular,
  rehearseReplacement,
  replaceFile,
  type FoundFile,
} from '../../common/durable-file.js';
import { CommandFailed } from '../terminal.js';

/** As long as a real pair, so that a rehearsal needs the room that the pair will. */
const SAMPLE: NodePair = { nodeId: '0'.repeat(36), apiKey: '0'.repeat(51) };

/** A node's configuration file, whose node_id and api_key are ours and whose remainder is not. */
export class ConfigFile {
  private constructor(
    readonly path: string,
    private readonly format: ConfigFormat,
    /** What it holds now. */
    readonly pair: Partial<NodePair>,
  ) {}

  /**
   * Opens a file, or the place of one that does not exist yet, and finds out whether it could be written.
   * @throws {CommandFailed} when it cannot be read, understood or replaced; nothing has happened then
   */
  static open(path: string, format = formatOf(path)): ConfigFile {
    if (!format)
      throw new CommandFailed(`The name of ${path} does not tell its format. Add --format json, env or yaml.`);
    const absolute = resolve(path);
    try {
      const found = readRegular(absolute);
      if (found) accessSync(absolute, constants.W_OK);
      rehearseReplacement(absolute, (standing) => Buffer.from(withPair(textOf(standing), format, SAMPLE)));
      return new ConfigFile(absolute, format, readPair(textOf(found), format));
    } catch (error) {
      throw new CommandFailed(`${path} cannot be used: ${reasonOf(error)}. Nothing was changed.`);
    }
  }

  /**
   * Puts the pair into the file as it is now, durably, at once or not at all.
   * @throws {CommandFailed} when it cannot; the file is as it was
   */
  write(pair: NodePair): void {
    try {
      replaceFile(this.path, (found) => Buffer.from(withPair(textOf(found), this.format, pair)));
    } catch (error) {
      throw new CommandFailed(`${this.path} could not be written: ${reasonOf(error)}. It is as it was.`);
    }
  }
}

function textOf(found: FoundFile | undefined): string {
  if (!found) return '';
  const text = found.bytes.toString('utf8');
  if (!Buffer.from(text).equals(found.bytes)) throw new UnreadableConfig('it is no UTF-8');
  return text;
}

const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'you may not read or write it, or write in its folder',
  EPERM: 'you may not replace it; run this as its owner',
  ENOENT: 'its folder does not exist',
  ENOTDIR: 'its folder is no folder',
  EROFS: 'its file system is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'your disk quota is used up',
};

/** The message of anything else may quote what the file holds. */
function reasonOf(error: unknown): string {
  if (error instanceof UnreadableConfig) return error.message;
  if (error instanceof NotRegularFileError)
    return `it is ${error.kind}${error.kind === 'a symbolic link' ? '; name the file that it leads to' : ''}`;
  const { code } = error as NodeJS.ErrnoException;
  return REASONS[code ?? ''] ?? `the operating system says ${code ?? 'no'}`;
}
