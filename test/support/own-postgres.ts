import { execFile } from 'node:child_process';
import { chmodSync, cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { locate, type Location } from '../../src/embedded-postgres/location.js';
import { EmbeddedPostgres } from '../../src/embedded-postgres/embedded-postgres.js';
import { freePort } from '../../src/embedded-postgres/free-port.js';
import type { TestDatabase } from './test-database.js';

const run = promisify(execFile);

/** A PostgreSQL server for one test, which may stop, restart and replicate it. It is durable. */
export class OwnPostgres {
  private constructor(
    private readonly location: Location,
    /** The name of its data directory. */
    private readonly cluster: string,
    private readonly url: string,
    private readonly erase: () => Promise<void>,
  ) {}

  static async start(): Promise<OwnPostgres> {
    const parent = mkdtempSync(join(tmpdir(), 'platform-auth-own-'));
    chmodSync(parent, 0o755);
    const folder = join(parent, 'postgres');
    const server = await EmbeddedPostgres.start({ folder, makePassword: () => 'of-a-test' });
    return new OwnPostgres(locate(folder), 'cluster', server.url(), async () => {
      await server.remove();
      rmSync(parent, { recursive: true, force: true });
    });
  }

  /** The only database of this server. */
  get database(): TestDatabase {
    const { url } = this;
    return {
      url,
      query: async <Row extends object>(sql: string, values: unknown[] = []): Promise<Row[]> => {
        const client = new Client({ connectionString: url });
        await client.connect();
        try {
          return (await client.query<Row>(sql, values)).rows;
        } finally {
          await client.end();
        }
      },
      drop: () => Promise.resolve(),
    };
  }

  /** A streaming standby, made from a copy of the stopped server: the embedded PostgreSQL ships no pg_basebackup. */
  async withStandby(): Promise<OwnPostgres> {
    await this.stop('fast');
    const cluster = `${this.cluster}-standby`;
    const path = join(this.location.folder, cluster);
    cpSync(join(this.location.folder, this.cluster), path, { recursive: true });
    const { user } = this.location;
    if (user) await run('chown', ['-R', `${user.uid}:${user.gid}`, path]);
    chmodSync(path, 0o700);
    await this.startAgain();
    const url = Object.assign(new URL(this.url), { port: String(await freePort()) }).toString();
    const standby: OwnPostgres = new OwnPostgres(this.location, cluster, url, () => standby.stop('immediate'));
    await standby.startAsStandbyOf(this);
    return standby;
  }

  /** Starts as a standby of a server, which need not run yet. */
  async startAsStandbyOf(primary: OwnPostgres): Promise<void> {
    writeFileSync(join(this.location.folder, this.cluster, 'standby.signal'), '');
    const { hostname, port, username, password } = new URL(primary.url);
    const source = `host=${hostname} port=${port} user=${username} password=${password}`;
    await this.startAgain(`-c primary_conninfo='${source}' -c wal_retrieve_retry_interval=100ms`);
  }

  async promote(): Promise<void> {
    await this.control('promote');
  }

  /** Stops the server: `fast` disconnects its clients, `immediate` is like a crash. */
  async stop(mode: 'fast' | 'immediate'): Promise<void> {
    await this.control('stop', `--mode=${mode}`);
  }

  /** Restarts the server on the same port. */
  async startAgain(more = ''): Promise<void> {
    const { port } = new URL(this.url);
    const settings = `-c listen_addresses=127.0.0.1 -c port=${port} -c unix_socket_directories='' ${more}`;
    await this.control('start', '--silent', `--log=${this.cluster}.log`, '-o', settings);
  }

  /** Stops the server and deletes its data. A standby must be removed before its primary. */
  async remove(): Promise<void> {
    await this.erase();
  }

  private async control(command: 'start' | 'stop' | 'promote', ...flags: string[]): Promise<void> {
    const { bin, folder, user } = this.location;
    const parameters = [command, '--wait', `--pgdata=${this.cluster}`, ...flags];
    await run(join(bin, 'pg_ctl'), parameters, { cwd: folder, env: { LC_ALL: 'C' }, ...user });
  }
}
