// A real PostgreSQL server from the npm registry, for development and tests only. It belongs to a folder, and every
// process that starts it for this folder shares one server. The last process that stops stops the server. The tests of
// first-run.process.spec.ts fail without it, also as root and in a folder that only its owner may enter.

import { execFile, spawnSync } from 'node:child_process';
import { chownSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { createId } from '../common/ids.js';
import { findFreePort, getServerFolder, locate, moveUnlessExists, type Location } from './location.js';

const USER = 'platform_auth';
const START_TIMEOUT_MS = 60_000;
const DISCONNECT_TIMEOUT_MS = 2_000;
const POLL_INTERVAL_MS = 100;
const APPLICATION_NAME = 'platform-auth-embedded';

interface EmbeddedPostgresOptions {
  readonly folder: string;
  readonly makePassword: () => string;
  /** Called before the cluster is created, which takes seconds. */
  readonly onCreate?: () => void;
  /** Further settings of the server, for tests whose data may be lost. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Of a server that does not run yet; by default, any free one. */
  readonly port?: number;
}

export class EmbeddedPostgres {
  private constructor(
    private readonly location: Location,
    private readonly port: number,
  ) {}

  /** Starts the server of a folder, or joins a running one, which another process uses or left behind when it was killed. */
  static async start(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
    const { makePassword, onCreate, settings = {} } = options;
    const folder = resolve(options.folder);
    const isNew = !existsSync(join(getServerFolder(folder), 'cluster', 'PG_VERSION'));
    if (isNew) onCreate?.();
    const location = locate(folder);
    if (isNew) await initialise(location, makePassword());
    // Another process may be starting or stopping the server.
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
    const password = readFileSync(join(this.location.folder, 'password'), 'utf8').trim();
    return `postgresql://${USER}:${encodeURIComponent(password)}@127.0.0.1:${this.port}/${database}`;
  }

  /** Stops the server, unless another process still uses it. */
  async stop(): Promise<void> {
    if (await this.isShared()) return;
    try {
      await run(this.location, 'pg_ctl', ['stop', '--wait', '--mode=fast', '--pgdata=cluster']);
    } catch (error) {
      // Another process may have stopped it at the same time.
      if (readRunningPort(this.location) !== undefined) throw error;
    }
  }

  async remove(): Promise<void> {
    await run(this.location, 'pg_ctl', ['stop', '--wait', '--mode=immediate', '--pgdata=cluster']);
    rmSync(this.location.folder, { recursive: true, force: true });
  }

  private async launch(settings: Readonly<Record<string, string>>): Promise<void> {
    const all = { listen_addresses: '127.0.0.1', port: String(this.port), unix_socket_directories: '', ...settings };
    const flags = Object.entries(all).map(([name, value]) => `-c ${name}='${value}'`);
    const start = ['start', '--wait', '--silent', '--pgdata=cluster', '--log=server.log', '-o', flags.join(' ')];
    try {
      await run(this.location, 'pg_ctl', start);
    } catch (error) {
      // Another process may have started it at the same time, on another port.
      if (readRunningPort(this.location) === undefined) throw error;
    }
  }

  /** The connections of a process that has just ended last a moment longer. */
  private async isShared(): Promise<boolean> {
    for (let waitedMs = 0; waitedMs < DISCONNECT_TIMEOUT_MS; waitedMs += POLL_INTERVAL_MS) {
      if (!(await this.hasOtherClients())) return false;
      await sleep(POLL_INTERVAL_MS);
    }
    return true;
  }

  /** Processes that stop at the same time do not count one another. */
  private async hasOtherClients(): Promise<boolean> {
    const others = await this.count(
      `SELECT 1 FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name <> '${APPLICATION_NAME}'`,
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
  const file = join(location.folder, 'password');
  writeIfAbsent(file, password);
  if (location.user) chownSync(file, location.user.uid, location.user.gid);
  const temporary = `cluster-${createId()}`;
  const settings = ['--pwfile=password', '--auth=scram-sha-256', '--encoding=UTF8', '--locale=C'];
  await run(location, 'initdb', [`--pgdata=${temporary}`, `--username=${USER}`, ...settings]);
  moveUnlessExists(join(location.folder, temporary), join(location.folder, 'cluster'));
}

function writeIfAbsent(file: string, text: string): void {
  try {
    writeFileSync(file, text, { mode: 0o600, flag: 'wx' });
  } catch (error) {
    if (!existsSync(file)) throw error;
  }
}

function readRunningPort(location: Location): number | undefined {
  const status = spawnSync(join(location.bin, 'pg_ctl'), ['status', '--pgdata=cluster'], toSpawnOptions(location));
  if (status.status !== 0) return undefined;
  const [, , , port] = readFileSync(join(location.folder, 'cluster', 'postmaster.pid'), 'utf8').split('\n');
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
