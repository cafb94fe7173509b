import { chownSync, closeSync, fsyncSync, openSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/**
 * Replaces a file as a whole: whoever reads it, also after a power cut, finds the old text or the new one.
 * It is readable by its owner alone. A symbolic link in its place is replaced, never followed.
 * @param owner whose file it stays; without one it is the caller's
 */
export function writeDurably(path: string, text: string, owner?: Owner): void {
  const beside = temporaryPath(path, process.pid);
  try {
    writeBeside(beside, text, owner);
    renameSync(beside, path);
    syncFolder(dirname(path));
  } finally {
    rmSync(beside, { force: true });
  }
  removeLeftovers(path);
}

/** Does all that {@link writeDurably} does, save for the replacement: throws what that would throw. */
export function rehearseWrite(path: string, text: string, owner?: Owner): void {
  const beside = temporaryPath(path, process.pid);
  try {
    writeBeside(beside, text, owner);
  } finally {
    rmSync(beside, { force: true });
  }
}

function writeBeside(beside: string, text: string, owner: Owner | undefined): void {
  rmSync(beside, { force: true });
  const file = openSync(beside, 'wx', 0o600);
  try {
    writeFileSync(file, text);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  if (owner && (owner.uid !== process.getuid?.() || owner.gid !== process.getgid?.()))
    chownSync(beside, owner.uid, owner.gid);
}

/** Without this the new name may be lost with the power, though the file's content is not. */
function syncFolder(folder: string): void {
  if (process.platform === 'win32') return;
  const handle = openSync(folder, 'r');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

function temporaryPath(path: string, pid: number): string {
  return join(dirname(path), `.${basename(path)}.${pid}.new`);
}

/** What a process that was killed half-way left beside the file holds a key too. */
function removeLeftovers(path: string): void {
  for (const name of readdirSync(dirname(path))) {
    const pid = Number(/\.(\d+)\.new$/.exec(name)?.[1]);
    const leftover = temporaryPath(path, pid);
    if (basename(leftover) === name && !isRunning(pid)) rmSync(leftover, { force: true });
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
