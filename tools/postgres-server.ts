import { execFile } from 'node:child_process';
import { chmodSync, cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { z } from 'zod';
import { claimPort } from './claim-port.js';
import { EmbeddedPostgres, locate, type Location } from '../src/foundation/embedded-postgres/embedded-postgres.js';
import type { Variables } from '../src/foundation/config/environment.js';
import type { Cleanup } from './cleanup.js';
import { makePassword, makeServerFolder, withClient } from './postgres.js';
import type { ProgramUser } from './program.js';

const run = promisify(execFile);
const MAX_START_ATTEMPTS = 20;
const START_RETRY_INTERVAL_MS = 100;
/** A commit is acknowledged only after the standby has applied it. */
const SYNCHRONOUS = { synchronous_standby_names: '*', synchronous_commit: 'remote_apply' };
const pids = z.array(z.object({ pid: z.int() }));

interface Folders {
  readonly location: Location;
  /** Path of the data directory. */
  readonly data: string;
}

/** A PostgreSQL server that can be stopped, killed, restarted and replicated. Commits are durable. */
export class PostgresServer {
  /** The next start uses them. */
  private settings: Readonly<Record<string, string>> = {};
  private variables: Variables = {};

  private constructor(
    private readonly cleanup: Cleanup,
    private readonly folders: Folders,
    readonly url: string,
  ) {}

  /** Starts a server in a temporary folder. The cleanup stops it and removes its data. */
  static async start(cleanup: Cleanup, purpose: string): Promise<PostgresServer> {
    const folder = makeServerFolder(cleanup, purpose);
    const location = locate(folder);
    const start = async (): Promise<EmbeddedPostgres> =>
      EmbeddedPostgres.start({ folder, makePassword, port: await claimPort() });
    // The server may have been killed, and cannot be stopped then.
    const server = await cleanup.acquire(start, (started) =>
      started.remove().catch(() => rmSync(location.folder, { recursive: true, force: true })),
    );
    return new PostgresServer(cleanup, { location, data: server.folder }, server.url());
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  get dataFolder(): string {
    return this.folders.data;
  }

  /** The user that the server runs as; undefined means the user of this process. */
  get user(): ProgramUser | undefined {
    return this.folders.location.user;
  }

  /** Queries the server as a superuser, who may write even when transactions are read-only by default. */
  query(sql: string, values: readonly unknown[] = []): Promise<unknown[]> {
    const url = new URL(this.url);
    url.searchParams.set('options', '-c default_transaction_read_only=off');
    return withClient(url.href, async (client) => {
      const { rows }: { rows: unknown[] } = await client.query(sql, [...values]);
      return rows;
    });
  }

  /** `kill -9` of the server and all its processes. */
  async kill(): Promise<void> {
    const children = pids.parse(await this.query('SELECT pid FROM pg_stat_activity'));
    const [postmaster] = readFileSync(join(this.dataFolder, 'postmaster.pid'), 'utf8').split('\n');
    for (const pid of [Number(postmaster), ...children.map((child) => child.pid)]) killIfRunning(pid);
  }

  /** Stops the server: `fast` disconnects its clients, `immediate` is like a crash. */
  async stop(mode: 'fast' | 'immediate'): Promise<void> {
    await this.control('stop', `--mode=${mode}`);
  }

  /** Starts on the same port. Retries, because the last process of a killed server may still be exiting. */
  async startAgain(): Promise<void> {
    const all = { listen_addresses: '127.0.0.1', port: this.port, unix_socket_directories: '', ...this.settings };
    const flags = Object.entries(all).map(([name, value]) => `-c ${name}='${value}'`);
    for (let attempt = 1; ; attempt += 1) {
      this.cleanup.assertOpen();
      try {
        await this.control('start', '--silent', '--log=server.log', '-o', flags.join(' '));
        return;
      } catch (error) {
        if (attempt === MAX_START_ATTEMPTS) throw error;
        await sleep(START_RETRY_INTERVAL_MS);
      }
    }
  }

  /** @param variables are added to the environment of the server from now on */
  async restartWith(variables: Variables): Promise<void> {
    await this.stop('fast');
    this.variables = variables;
    await this.startAgain();
  }

  /**
   * Copies the data of the stopped server, and starts it again.
   * @returns the folder that {@link restore} takes
   */
  async backUp(): Promise<string> {
    const copy = `${this.dataFolder}-backup`;
    await this.stop('fast');
    cpSync(this.dataFolder, copy, { recursive: true });
    await this.startAgain();
    return copy;
  }

  /** Kills the server, and starts it with the data of a backup. */
  async restore(backup: string): Promise<void> {
    await this.kill();
    rmSync(this.dataFolder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    cpSync(backup, this.dataFolder, { recursive: true });
    await this.takeOwnership(this.dataFolder);
    await this.startAgain();
  }

  /**
   * Starts a streaming standby from a copy of the stopped server, because the embedded PostgreSQL has no pg_basebackup.
   * @param options.port of a proxy through which the standby connects
   */
  async withStandby({ isSynchronous = false, port = this.port } = {}): Promise<PostgresServer> {
    await this.stop('fast');
    const data = `${this.dataFolder}-standby`;
    cpSync(this.dataFolder, data, { recursive: true });
    await this.takeOwnership(data);
    if (isSynchronous) this.settings = { ...this.settings, ...SYNCHRONOUS };
    await this.startAgain();
    const url = Object.assign(new URL(this.url), { port: String(await claimPort()) }).href;
    const standby = new PostgresServer(this.cleanup, { ...this.folders, data }, url);
    this.cleanup.defer(() => standby.stopIfRunning());
    await standby.startAsStandbyOf(this, port);
    return standby;
  }

  /** Starts as a standby of a server, which need not run yet. */
  async startAsStandbyOf(primary: PostgresServer, port = primary.port): Promise<void> {
    writeFileSync(join(this.dataFolder, 'standby.signal'), '');
    const { hostname, username, password } = new URL(primary.url);
    const source = `host=${hostname} port=${port} user=${username} password=${password}`;
    this.settings = { primary_conninfo: source, wal_retrieve_retry_interval: '100ms' };
    await this.startAgain();
  }

  async promote(): Promise<void> {
    await this.control('promote');
  }

  async stopIfRunning(): Promise<void> {
    await this.stop('immediate').catch(() => undefined);
  }

  /** The server accepts only a data directory that its user owns, with mode 0700. */
  async takeOwnership(folder: string): Promise<void> {
    const { user } = this;
    if (user) await run('chown', ['-R', `${user.uid}:${user.gid}`, folder]);
    chmodSync(folder, 0o700);
  }

  private async control(command: 'start' | 'stop' | 'promote', ...flags: readonly string[]): Promise<void> {
    const { bin, folder, user } = this.folders.location;
    const parameters = [command, '--wait', `--pgdata=${this.dataFolder}`, ...flags];
    await run(join(bin, 'pg_ctl'), parameters, { cwd: folder, env: { LC_ALL: 'C', ...this.variables }, ...user });
  }
}

function killIfRunning(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has exited meanwhile.
  }
}
