import { Cleanup } from '../../tools/cleanup.js';
import { withClient } from '../../tools/postgres.js';
import { PostgresServer } from '../../tools/postgres-server.js';
import type { TestDatabase } from './test-database.js';

/** A durable PostgreSQL server for one test, which may stop, restart and replicate it. */
export class OwnPostgres {
  private constructor(
    private readonly server: PostgresServer,
    /** Stops the server. */
    private readonly end: () => Promise<void>,
  ) {}

  static async start(): Promise<OwnPostgres> {
    const cleanup = new Cleanup();
    return new OwnPostgres(await PostgresServer.start(cleanup, 'own'), () => cleanup.run());
  }

  /** The only database of this server. */
  get database(): TestDatabase {
    const { url } = this.server;
    return {
      url,
      query: <Row extends object>(sql: string, values: unknown[] = []): Promise<Row[]> =>
        withClient(url, async (client) => (await client.query<Row>(sql, values)).rows),
      drop: () => Promise.resolve(),
    };
  }

  async withStandby(): Promise<OwnPostgres> {
    const standby = await this.server.withStandby();
    return new OwnPostgres(standby, () => standby.stopIfRunning());
  }

  /** Starts as a standby of a server, which need not run yet. */
  async startAsStandbyOf(primary: OwnPostgres): Promise<void> {
    await this.server.startAsStandbyOf(primary.server);
  }

  async promote(): Promise<void> {
    await this.server.promote();
  }

  /** Stops the server: `fast` disconnects its clients, `immediate` is like a crash. */
  async stop(mode: 'fast' | 'immediate'): Promise<void> {
    await this.server.stop(mode);
  }

  /** Restarts the server on the same port. */
  async startAgain(): Promise<void> {
    await this.server.startAgain();
  }

  /** Stops the server and deletes its data. */
  async remove(): Promise<void> {
    await this.end();
  }
}
