import { Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { Environment } from '../config/environment.js';
import { PasswordHasher } from '../crypto/password-hasher.js';
import { Database } from '../database/database.js';
import { Log } from '../logging/log.js';
import { MetricsEndpoint } from './metrics-endpoint.js';
import { RequestCounts } from './request-counts.js';
import { ScrapedGauges } from './scraped-gauges.js';
import { WorkerReporter } from './worker-report.js';

/**
 * Shows the metrics on a port of their own, which the public never sees. Without `METRICS_PORT` nobody does. One of
 * several workers reports them to the process that has the port.
 */
@Injectable()
export class MetricsServer implements OnApplicationBootstrap, OnApplicationShutdown {
  private endpoint: MetricsEndpoint | undefined;
  private reporter: WorkerReporter | undefined;

  constructor(
    private readonly environment: Environment,
    readonly counts: RequestCounts,
    readonly gauges: ScrapedGauges,
    readonly hasher: PasswordHasher,
    readonly database: Database,
    readonly log: Log,
  ) {}

  /** The port it listens on. */
  get port(): number | undefined {
    return this.endpoint?.port;
  }

  /** @throws when the port is taken */
  async onApplicationBootstrap(): Promise<void> {
    const { metricsPort: port, host, isWorker } = this.environment;
    if (port === undefined) return;
    // Loaded only here: whoever does not look pays nothing.
    const { expositionOf } = await import('./exposition.js');
    const registry = expositionOf(this);
    if (isWorker) this.reporter = new WorkerReporter(registry);
    else this.endpoint = await MetricsEndpoint.open({ port, host, log: this.log, read: () => registry });
  }

  async onApplicationShutdown(): Promise<void> {
    await this.endpoint?.close();
    await this.reporter?.reportLast();
  }
}
