import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  type Stats,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { randomId } from './ids.js';

// The folder may belong to somebody less trusted than who runs this: a device user's, and root. Whatever that user puts
// in the place of a file at whatever moment, nothing but what was opened is read, and nothing but what was made is given
// away. Hence no function here that looks at a file by its path and trusts the path afterwards.

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;
const PRIVATE_MODE = 0o600;

/** A file as it was when it was opened: the bytes and the owner are those of the same thing. */
export interface FoundFile {
  readonly bytes: Buffer;
  readonly stats: Stats;
}

/** What a file's content becomes. */
export type Change = (found: FoundFile | undefined) => Buffer;

/** Something stands where a file belongs, and is none. */
export class NoRegularFile extends Error {
  constructor(
    path: string,
    readonly kind: 'a symbolic link' | 'a directory' | 'no regular file',
  ) {
    super(`${path} is ${kind}`);
  }
}

/**
 * @returns undefined when there is nothing
 * @throws {NoRegularFile} for a symbolic link, a directory, a pipe …
 */
export function readRegular(path: string): FoundFile | undefined {
  const descriptor = openExisting(path);
  if (descriptor === undefined) return undefined;
  try {
    const stats = fstatSync(descriptor);
    if (!stats.isFile()) throw new NoRegularFile(path, stats.isDirectory() ? 'a directory' : 'no regular file');
    return { bytes: readFileSync(descriptor), stats };
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Replaces a file as a whole: whoever reads it, also after a power cut, finds the old content or the new one. It is
 * readable by its owner alone and stays its owner's; a new one is the caller's.
 * @param change is given the file as it is now
 * @throws {NoRegularFile} as {@link readRegular}
 */
export function replaceFile(path: string, change: Change): void {
  removeLeftovers(path);
  const temporary = writeBeside(path, change);
  try {
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  syncFolder(dirname(path));
}

/** Does all that {@link replaceFile} does, save for the replacement: throws what that would throw. */
export function rehearseReplacement(path: string, change: Change): void {
  rmSync(writeBeside(path, change), { force: true });
}

/** O_NONBLOCK: a pipe that nobody writes to must not hold the command up. */
function openExisting(path: string): number | undefined {
  try {
    return openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    if (code === 'ELOOP') throw new NoRegularFile(path, 'a symbolic link');
    if (code === 'ENXIO') throw new NoRegularFile(path, 'no regular file');
    throw error;
  }
}

/** @returns the path of the new content, which is on the disk, in the same folder and its owner's */
function writeBeside(path: string, change: Change): string {
  const found = readRegular(path);
  const bytes = change(found);
  const temporary = join(dirname(path), `.${basename(path)}.${process.pid}.${randomId()}.new`);
  const descriptor = openSync(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, PRIVATE_MODE);
  try {
    if (found) giveTo(descriptor, found.stats);
    fchmodSync(descriptor, PRIVATE_MODE);
    writeFileSync(descriptor, bytes);
    fsyncSync(descriptor);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  } finally {
    closeSync(descriptor);
  }
  return temporary;
}

function giveTo(descriptor: number, { uid, gid }: Stats): void {
  const made = fstatSync(descriptor);
  if (made.uid !== uid || made.gid !== gid) fchownSync(descriptor, uid, gid);
}

/** Without this the new name may be lost with the power, though the file's content is not. */
function syncFolder(folder: string): void {
  if (process.platform === 'win32') return;
  const descriptor = openSync(folder, O_RDONLY);
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** What a process that was killed half-way left beside the file holds a key too. */
function removeLeftovers(path: string): void {
  const folder = dirname(path);
  const start = `.${basename(path)}.`;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.isDirectory() || !entry.name.startsWith(start)) continue;
    const pid = /^(\d+)\.[\w-]+\.new$/.exec(entry.name.slice(start.length))?.[1];
    if (pid !== undefined && !isRunning(Number(pid))) rmSync(join(folder, entry.name), { force: true });
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
