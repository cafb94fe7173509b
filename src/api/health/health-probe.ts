import {
  Injectable,
  type BeforeApplicationShutdown,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
} from '@nestjs/common';
import { Client } from 'pg';
import { Environment } from '../../foundation/config/environment.js';
import { IS_STANDBY, refuseStandby, type StandbyRow } from '../../foundation/database/connection-check.js';
import { MetricsRegistry } from '../../foundation/metrics/metrics-registry.js';

/** Health checks reach PostgreSQL at most four times a second, however frequent they are. */
const RESULT_TTL_MS = 250;
const GAUGE_INTERVAL_MS = 2_000;

/**
 * Checks whether this replica can use PostgreSQL: single flight, with a short cache, on a connection of its own. So a
 * flood of health checks takes no connection from the pool, and an exhausted pool is not reported as an outage.
 */
@Injectable()
export class HealthProbe implements OnApplicationBootstrap, BeforeApplicationShutdown, OnApplicationShutdown {
  private client: Client | undefined;
  private result: Promise<boolean> | undefined;
  private isUp: boolean | undefined;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly environment: Environment,
    metrics: MetricsRegistry,
  ) {
    const read = (): number | undefined => (this.isUp === undefined ? undefined : Number(this.isUp));
    // Workers are aggregated by their minimum, so that a single one without the database raises an alert.
    metrics.addGauge('database_up', '1: PostgreSQL can be used. 0: it cannot, or is a standby.', read, 'min');
  }

  async onApplicationBootstrap(): Promise<void> {
    if (this.environment.metricsPort === undefined) return;
    const update = async (): Promise<void> => void (this.isUp = await this.isUsable());
    await update();
    this.timer = setInterval(() => void update(), GAUGE_INTERVAL_MS).unref();
  }

  beforeApplicationShutdown(): void {
    clearInterval(this.timer);
  }

  onApplicationShutdown(): void {
    this.disconnect();
  }

  /** @returns false when PostgreSQL does not answer in time, or is a standby */
  isUsable(): Promise<boolean> {
    return (this.result ??= this.checkPrimary());
  }

  private async checkPrimary(): Promise<boolean> {
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
    // Without a listener, the error of a connection that is lost between two checks would crash the process.
    client.on('error', () => undefined);
    client.on('end', () => {
      if (this.client === client) this.client = undefined;
    });
    await client.connect();
    return client;
  }

  /** Makes a check in flight fail at once, even while its connection is being opened. */
  private disconnect(): void {
    const { client } = this;
    this.client = undefined;
    client?.connection.stream.destroy();
  }
}

/** Set when a stop begins: the replica is reported unready before it stops answering. */
@Injectable()
export class Readiness {
  isDraining = false;

  drain(): void {
    this.isDraining = true;
  }
}
