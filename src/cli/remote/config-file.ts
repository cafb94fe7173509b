import { accessSync, constants } from 'node:fs';
import { resolve } from 'node:path';
import {
  detectFormat,
  readPair,
  UnreadableConfigError,
  setPair,
  type ConfigFormat,
  type NodePair,
} from './config-format.js';
import {
  NotRegularFileError,
  readRegular,
  rehearseReplacement,
  replaceFile,
  type FoundFile,
} from '../../common/durable-file.js';
import { describeFileReason } from '../system-errors.js';
import { CommandFailedError } from '../terminal.js';

/** As long as a real pair, so that a rehearsal needs as much disk space. */
const SAMPLE: NodePair = { nodeId: '0'.repeat(36), apiKey: '0'.repeat(51) };

/** A node's configuration file. Only node_id and api_key are changed; the rest belongs to the node. */
export class ConfigFile {
  private constructor(
    readonly path: string,
    private readonly format: ConfigFormat,
    /** The pair in the file when it was opened. */
    readonly pair: Partial<NodePair>,
  ) {}

  /**
   * Opens a file, which may not exist yet, and checks that it could be written.
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
   * Sets the pair in the current content of the file: atomic and durable.
   * @throws {CommandFailedError} when that fails; the file is unchanged
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

/** Other errors are reduced to their code: their message may quote the file, which holds secrets. */
function describeReason(error: unknown): string {
  if (error instanceof UnreadableConfigError) return error.message;
  if (error instanceof NotRegularFileError)
    return `it is ${error.kind}${error.kind === 'a symbolic link' ? '; name the file that it points to' : ''}`;
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return 'its folder does not exist';
  return describeFileReason(error) ?? `the operating system refused it (${code ?? 'no error code'})`;
}
