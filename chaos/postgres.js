import { execFile } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { locate } from '../dist/src/embedded-postgres/location.js';
import { EmbeddedPostgres } from '../dist/src/embedded-postgres/embedded-postgres.js';
import { defer, assertNotStopping } from './cleanup.js';
import { sleep } from './client.js';
import { freePort } from '../dist/src/embedded-postgres/free-port.js';

const run = promisify(execFile);
const MAX_START_ATTEMPTS = 20;

/** A separate PostgreSQL server that can be killed, restarted and replicated to a standby. Commits are durable. */
export class Postgres {
  /** @param {{ bin: string, folder: string, user?: object }} place as the embedded server has it */
  constructor(place, cluster, url) {
    Object.assign(this, { place, cluster, url, settings: {} });
  }

  static async start() {
    assertNotStopping();
    const parent = mkdtempSync(join(tmpdir(), 'platform-auth-chaos-'));
    chmodSync(parent, 0o755);
    defer(() => rmSync(parent, { recursive: true, force: true }));
    const folder = join(parent, 'postgres');
    const place = locate(folder);
    const server = await EmbeddedPostgres.start({ folder, makePassword: () => 'of-chaos' });
    const postgres = new Postgres(place, join(place.folder, 'cluster'), server.url());
    defer(() => server.remove().catch(() => rmSync(place.folder, { recursive: true, force: true })));
    return postgres;
  }

  get port() {
    return Number(new URL(this.url).port);
  }

  /** Queries the server directly, not through the proxy. */
  async query(sql, values) {
    const client = new pg.Client({ connectionString: this.url, options: '-c default_transaction_read_only=off' });
    client.on('error', () => undefined);
    await client.connect();
    try {
      return (await client.query(sql, values)).rows;
    } finally {
      await client.end();
    }
  }

  /** `kill -9` of the server and of all its processes. */
  async kill() {
    const pids = (await this.query('SELECT pid FROM pg_stat_activity')).map(({ pid }) => pid);
    const [postmaster] = readFileSync(join(this.cluster, 'postmaster.pid'), 'utf8').split('\n');
    for (const pid of [Number(postmaster), ...pids]) kill(pid);
  }

  async stop(mode = 'fast') {
    await this.control('stop', '--wait', `--mode=${mode}`);
  }

  /** Starts on the same port. Retries, because the last process of a killed server may still be exiting. */
  async startAgain() {
    const all = { listen_addresses: '127.0.0.1', port: this.port, unix_socket_directories: '', ...this.settings };
    const flags = Object.entries(all).map(([name, value]) => `-c ${name}='${value}'`);
    for (let tries = 1; ; tries += 1) {
      assertNotStopping();
      try {
        return await this.control('start', '--wait', '--silent', '--log=server.log', '-o', flags.join(' '));
      } catch (error) {
        if (tries === MAX_START_ATTEMPTS) throw error;
        await sleep(100);
      }
    }
  }

  /**
   * Starts a streaming standby from a copy of the stopped server. From now on a commit is acknowledged only after the
   * standby has applied it.
   * @param {(port: number) => Promise<number>} portOf maps the server's port to the one that the standby connects to
   */
  async withStandby(portOf = async (port) => port) {
    await this.stop();
    const cluster = `${this.cluster}-standby`;
    cpSync(this.cluster, cluster, { recursive: true });
    writeFileSync(join(cluster, 'standby.signal'), '');
    await this.#own(cluster);
    this.settings = { synchronous_standby_names: '*', synchronous_commit: 'remote_apply' };
    await this.startAgain();
    const port = await freePort();
    const standby = new Postgres(
      this.place,
      cluster,
      Object.assign(new URL(this.url), { port: String(port) }).toString(),
    );
    const { username, password } = new URL(this.url);
    const primary = `host=127.0.0.1 port=${await portOf(this.port)} user=${username} password=${password}`;
    standby.settings = { primary_conninfo: primary, wal_retrieve_retry_interval: '100ms' };
    defer(() => standby.stop('immediate'));
    await standby.startAgain();
    return standby;
  }

  /** Moves the tables to a small tmpfs; the WAL stays on the normal disk. Needs root for mount(8). */
  async ontoSmallDisk(megabytes) {
    await this.stop();
    const aside = `${this.cluster}-aside`;
    renameSync(this.cluster, aside);
    mkdirSync(this.cluster);
    await run('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', this.cluster]);
    defer(async () => {
      await this.stop('immediate').catch(() => undefined);
      await run('umount', ['--lazy', this.cluster]);
    });
    renameSync(join(aside, 'pg_wal'), `${this.cluster}-wal`);
    cpSync(aside, this.cluster, { recursive: true });
    symlinkSync(`${this.cluster}-wal`, join(this.cluster, 'pg_wal'));
    rmSync(aside, { recursive: true });
    await this.#own(this.cluster);
    await this.startAgain();
  }

  async control(command, ...flags) {
    const { bin, folder, user } = this.place;
    const parameters = [command, `--pgdata=${this.cluster}`, ...flags];
    await run(join(bin, 'pg_ctl'), parameters, { cwd: folder, env: { LC_ALL: 'C' }, ...user });
  }

  async #own(path) {
    const { user } = this.place;
    if (user) await run('chown', ['-R', `${user.uid}:${user.gid}`, path]);
    if (user) chownSync(path, user.uid, user.gid);
    chmodSync(path, 0o700);
  }
}

function kill(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It exited with the others.
  }
}
