// Files with keys: replaced atomically, readable by their owner only, and complete after a power cut. The folder may
// belong to a user with fewer rights than this process (root), who can replace a file at any moment (TOCTOU). So bytes
// are read from, and an owner is set on, an open descriptor and never a path. write-file-atomic 7 opens a predictable
// name, follows links, and sets the owner by path.

import * as fs from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { createRandomId } from './ids.js';

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = fs.constants;
const PRIVATE_MODE = 0o600;
const OTHER_USERS_MASK = 0o077;
/**
 * exFAT and some shared folders have no hard links: there, two processes that race to create a file may both succeed.
 */
const NO_HARD_LINKS = new Set(['EPERM', 'ENOTSUP', 'ENOSYS']);

/** The bytes and the owner of one opened file, whatever its path leads to by now. */
export interface FoundFile {
  readonly bytes: Buffer;
  readonly stats: fs.Stats;
}

type Change = (found: FoundFile | undefined) => Buffer;

export class NotRegularFileError extends Error {
  override readonly name = 'NotRegularFileError';

  constructor(
    path: string,
    readonly kind: 'a symbolic link' | 'a directory' | 'not a regular file',
  ) {
    super(`${path} is ${kind}`);
  }
}

/** @throws {NotRegularFileError} for a symbolic link, a directory, a pipe … */
export function readRegular(path: string): FoundFile | undefined {
  const descriptor = openExisting(path);
  if (descriptor === undefined) return undefined;
  try {
    const stats = fs.fstatSync(descriptor);
    if (!stats.isFile())
      throw new NotRegularFileError(path, stats.isDirectory() ? 'a directory' : 'not a regular file');
    return { bytes: fs.readFileSync(descriptor), stats };
  } finally {
    fs.closeSync(descriptor);
  }
}

/** Whether users other than its owner may read or write a file. */
export function isOpenToOthers({ mode }: Pick<fs.Stats, 'mode'>): boolean {
  return (mode & OTHER_USERS_MASK) !== 0;
}

/** The file keeps its owner; a new one belongs to the user of this process. */
export function replaceFile(path: string, change: Change): void {
  removeLeftovers(path);
  const temporary = writeBeside(path, change);
  try {
    fs.renameSync(temporary, path);
  } finally {
    fs.rmSync(temporary, { force: true });
  }
  syncFolder(path);
}

/** Does what {@link replaceFile} does up to the replacement, so that its errors occur before anything depends on it. */
export function rehearseReplacement(path: string, change: Change): void {
  fs.rmSync(writeBeside(path, change), { force: true });
}

/** @returns false, and changes nothing, when the path exists. When several processes create the file, one gets true. */
export function createFile(path: string, bytes: Buffer): boolean {
  removeLeftovers(path);
  const temporary = writeBeside(path, () => bytes);
  try {
    fs.linkSync(temporary, path);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' || fs.existsSync(path)) return false;
    if (!NO_HARD_LINKS.has(code)) throw error;
    fs.renameSync(temporary, path);
  } finally {
    fs.rmSync(temporary, { force: true });
  }
  syncFolder(path);
  return true;
}

function openExisting(path: string): number | undefined {
  try {
    // O_NONBLOCK: opening a pipe without a writer must not block the command.
    return fs.openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    if (code === 'ELOOP') throw new NotRegularFileError(path, 'a symbolic link');
    if (code === 'ENXIO') throw new NotRegularFileError(path, 'not a regular file');
    throw error;
  }
}

function writeBeside(path: string, change: Change): string {
  const found = readRegular(path);
  const bytes = change(found);
  const temporary = join(dirname(path), `.${basename(path)}.${process.pid}.${createRandomId()}.new`);
  const descriptor = fs.openSync(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, PRIVATE_MODE);
  try {
    const { uid, gid } = fs.fstatSync(descriptor);
    if (found && (found.stats.uid !== uid || found.stats.gid !== gid))
      fs.fchownSync(descriptor, found.stats.uid, found.stats.gid);
    fs.fchmodSync(descriptor, PRIVATE_MODE);
    fs.writeFileSync(descriptor, bytes);
    fs.fsyncSync(descriptor);
    return temporary;
  } catch (error) {
    fs.rmSync(temporary, { force: true });
    throw error;
  } finally {
    fs.closeSync(descriptor);
  }
}

/** Without this a power cut may lose the new name, although the file's content is on the disk. */
function syncFolder(path: string): void {
  if (process.platform === 'win32') return;
  const descriptor = fs.openSync(dirname(path), O_RDONLY);
  fs.fsyncSync(descriptor);
  fs.closeSync(descriptor);
}

/** Removes the temporary files that killed processes left behind, because they contain keys too. */
function removeLeftovers(path: string): void {
  const start = `.${basename(path)}.`;
  for (const entry of fs.readdirSync(dirname(path), { withFileTypes: true })) {
    if (entry.isDirectory() || !entry.name.startsWith(start)) continue;
    const pid = /^(\d+)\.[\w-]+\.new$/.exec(entry.name.slice(start.length))?.[1];
    if (pid !== undefined && !isRunning(Number(pid))) fs.rmSync(join(dirname(path), entry.name), { force: true });
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
