// Exports: one line for each row, to standard output or to a new file, which is complete or does not exist.
import { once } from 'node:events';
import { createWriteStream, openSync, rmSync } from 'node:fs';
import { finished } from 'node:stream/promises';

const PRIVATE_MODE = 0o600;

/** Writes lines, and waits while the reader of the output is slow. */
export type WriteLines = (lines: readonly string[]) => Promise<void>;

/**
 * @param file a new file, which only its owner may read; undefined: standard output
 * @param work when it fails, the file is removed: a part of an export cannot be told from a complete one
 * @returns the number of lines
 */
export async function writeExport(
  file: string | undefined,
  work: (writeLines: WriteLines) => Promise<void>,
): Promise<number> {
  const descriptor = file === undefined ? undefined : openSync(file, 'wx', PRIVATE_MODE);
  const target = descriptor === undefined ? process.stdout : createWriteStream('', { fd: descriptor, flush: true });
  let count = 0;
  try {
    await work(async (lines) => {
      if (!target.write(lines.map((line) => `${line}\n`).join(''))) await once(target, 'drain');
      count += lines.length;
    });
    if (file !== undefined) await finished(target.end());
    return count;
  } catch (error) {
    if (file !== undefined) rmSync(file, { force: true });
    throw error;
  }
}
