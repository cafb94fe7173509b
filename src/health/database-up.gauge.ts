import { Injectable, type BeforeApplicationShutdown, type OnApplicationBootstrap } from '@nestjs/common';
import { Environment } from '../config/environment.js';
import { HealthProbe } from '../database/health-probe.js';
import { MetricsRegistry } from '../metrics/metrics-registry.js';

const CHECK_INTERVAL_MS = 2_000;

/**
 * The verdict of `/health` on PostgreSQL, as a gauge. Checked on a timer while metrics are served: a scrape never waits
 * for the database, and an outage is seen also while no load balancer asks.
 */
@Injectable()
export class DatabaseUpGauge implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private isUp: boolean | undefined;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    metrics: MetricsRegistry,
    private readonly probe: HealthProbe,
    private readonly environment: Environment,
  ) {
    const read = (): number | undefined => (this.isUp === undefined ? undefined : Number(this.isUp));
    // One worker that cannot use the database is worth an alert.
    metrics.addGauge('database_up', '1: PostgreSQL can be used. 0: it cannot, or is a standby.', read, 'min');
  }

  async onApplicationBootstrap(): Promise<void> {
    if (this.environment.metricsPort === undefined) return;
    await this.check();
    this.timer = setInterval(() => void this.check(), CHECK_INTERVAL_MS).unref();
  }

  beforeApplicationShutdown(): void {
    clearInterval(this.timer);
  }

  private async check(): Promise<void> {
    this.isUp = await this.probe.isUsable();
  }
}
