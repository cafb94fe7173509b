import { execFile } from 'node:child_process';
import { mkdtempSync, chmodSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { locate, type Location } from '../../src/embedded-postgres/location.js';
import { EmbeddedPostgres } from '../../src/embedded-postgres/embedded-postgres.js';
import type { TestDatabase } from './test-database.js';

/** A PostgreSQL server of a test's own, that it may end and start again. It keeps what it has acknowledged. */
export class OwnPostgres {
  private constructor(
    private readonly parent: string,
    private readonly server: EmbeddedPostgres,
    private readonly location: Location,
  ) {}

  static async start(): Promise<OwnPostgres> {
    const parent = mkdtempSync(join(tmpdir(), 'platform-auth-own-'));
    chmodSync(parent, 0o755);
    const folder = join(parent, 'postgres');
    const server = await EmbeddedPostgres.start({ folder, makePassword: () => 'of-a-test' });
    return new OwnPostgres(parent, server, locate(folder));
  }

  /** The one database of this server, as tests know databases. */
  get database(): TestDatabase {
    const url = this.server.url();
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

  /** Ends the server: `fast` tells its clients, `immediate` is as a crash. */
  async stop(mode: 'fast' | 'immediate'): Promise<void> {
    await this.control('stop', `--mode=${mode}`);
  }

  /** Starts it again, on the same port. */
  async startAgain(): Promise<void> {
    const port = new URL(this.server.url()).port;
    const settings = `-c listen_addresses=127.0.0.1 -c port=${port} -c unix_socket_directories=''`;
    await this.control('start', '--silent', '--log=server.log', '-o', settings);
  }

  async remove(): Promise<void> {
    await this.server.remove();
    rmSync(this.parent, { recursive: true, force: true });
  }

  private async control(command: 'start' | 'stop', ...flags: string[]): Promise<void> {
    const { bin, folder, user } = this.location;
    const parameters = [command, '--wait', '--pgdata=cluster', ...flags];
    await promisify(execFile)(join(bin, 'pg_ctl'), parameters, { cwd: folder, env: { LC_ALL: 'C' }, ...user });
  }
}
