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
import { later, mayStart } from './cleanup.js';
import { sleep } from './client.js';
import { freePort } from '../dist/src/embedded-postgres/free-port.js';

const run = promisify(execFile);
const START_TRIES = 20;

/** A PostgreSQL server of its own, that can be killed, started again, and followed by a standby. It loses nothing it acknowledged. */
export class Postgres {
  /** @param {{ bin: string, folder: string, user?: object }} place as the embedded server has it */
  constructor(place, cluster, url) {
    Object.assign(this, { place, cluster, url, settings: {} });
  }

  static async start() {
    mayStart();
    const parent = mkdtempSync(join(tmpdir(), 'platform-auth-chaos-'));
    chmodSync(parent, 0o755);
    later(() => rmSync(parent, { recursive: true, force: true }));
    const folder = join(parent, 'postgres');
    const place = locate(folder);
    const server = await EmbeddedPostgres.start({ folder, makePassword: () => 'of-chaos' });
    const postgres = new Postgres(place, join(place.folder, 'cluster'), server.url());
    later(() => server.remove().catch(() => rmSync(place.folder, { recursive: true, force: true })));
    return postgres;
  }

  get port() {
    return Number(new URL(this.url).port);
  }

  /** Asks the server itself, past the proxy. */
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

  /** `kill -9` of the server and of every process of it. */
  async kill() {
    const pids = (await this.query('SELECT pid FROM pg_stat_activity')).map(({ pid }) => pid);
    const [postmaster] = readFileSync(join(this.cluster, 'postmaster.pid'), 'utf8').split('\n');
    for (const pid of [Number(postmaster), ...pids]) kill(pid);
  }

  async stop(mode = 'fast') {
    await this.control('stop', '--wait', `--mode=${mode}`);
  }

  /** On the same port as before. A killed server's last process may still be going. */
  async startAgain() {
    const all = { listen_addresses: '127.0.0.1', port: this.port, unix_socket_directories: '', ...this.settings };
    const flags = Object.entries(all).map(([name, value]) => `-c ${name}='${value}'`);
    for (let tries = 1; ; tries += 1) {
      mayStart();
      try {
        return await this.control('start', '--wait', '--silent', '--log=server.log', '-o', flags.join(' '));
      } catch (error) {
        if (tries === START_TRIES) throw error;
        await sleep(100);
      }
    }
  }

  /**
   * A streaming standby, made from a copy of the stopped server. From here on the server acknowledges only what the
   * standby has applied.
   * @param {(port: number) => Promise<number>} portOf where the standby finds the server, when not on its own port
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
    later(() => standby.stop('immediate'));
    await standby.startAgain();
    return standby;
  }

  /** Moves the log of writes elsewhere and puts the tables on a small disk of their own. Needs root, to mount it. */
  async ontoSmallDisk(megabytes) {
    await this.stop();
    const aside = `${this.cluster}-aside`;
    renameSync(this.cluster, aside);
    mkdirSync(this.cluster);
    await run('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', this.cluster]);
    later(async () => {
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
    // It has gone with the others.
  }
}
