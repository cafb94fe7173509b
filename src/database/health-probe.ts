import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { Client } from 'pg';
import { Environment } from '../config/environment.js';
import { IS_STANDBY, refuseStandby, type StandbyRow } from './connection-check.js';

/** Health checks reach PostgreSQL at most four times a second, however frequent they are. */
const RESULT_TTL_MS = 250;

/**
 * Checks whether this replica can use PostgreSQL: single flight, with a short cache, on a connection of its own. A
 * flood of health checks takes no connection from the pool, and an exhausted pool is not an outage.
 */
@Injectable()
export class HealthProbe implements OnApplicationShutdown {
  private client: Client | undefined;
  private result: Promise<boolean> | undefined;

  constructor(private readonly environment: Environment) {}

  /** @returns false when PostgreSQL does not answer in time, or is a standby */
  isUsable(): Promise<boolean> {
    return (this.result ??= this.check());
  }

  onApplicationShutdown(): void {
    this.disconnect();
  }

  private async check(): Promise<boolean> {
    const timeout = setTimeout(() => this.disconnect(), this.environment.healthTimeoutMs);
    try {
      const client = this.client ?? (await this.connect());
      refuseStandby((await client.query<StandbyRow>(IS_STANDBY)).rows);
      return true;
    } catch {
      this.disconnect();
      return false;
    } finally {
      clearTimeout(timeout);
      setTimeout(() => (this.result = undefined), RESULT_TTL_MS).unref();
    }
  }

  private async connect(): Promise<Client> {
    const { databaseUrl } = this.environment;
    const client = new Client({ connectionString: databaseUrl, application_name: 'platform-auth-health' });
    this.client = client;
    // Without a listener, the error of a connection that is lost between two checks would end the process.
    client.on('error', () => undefined);
    client.on('end', () => {
      if (this.client === client) this.client = undefined;
    });
    await client.connect();
    return client;
  }

  /** Makes a check in flight fail at once, also while the connection is being opened. */
  private disconnect(): void {
    const { client } = this;
    this.client = undefined;
    client?.connection.stream.destroy();
  }
}
