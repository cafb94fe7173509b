import { Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { AggregatorRegistry } from 'prom-client';
import { Environment } from '../config/environment.js';
import { Log } from '../logging/log.js';
import { MetricsEndpoint } from './metrics-endpoint.js';
import { MetricsRegistry } from './metrics-registry.js';

/** Serves `/metrics` on `METRICS_PORT`. A worker sends its metrics to the primary instead, which has the port. */
@Injectable()
export class MetricsServer implements OnApplicationBootstrap, OnApplicationShutdown {
  private endpoint: MetricsEndpoint | undefined;

  constructor(
    private readonly environment: Environment,
    private readonly metrics: MetricsRegistry,
    private readonly log: Log,
  ) {}

  /** The port it listens on; undefined when it is closed. */
  get port(): number | undefined {
    return this.endpoint?.port;
  }

  /** @throws when the port is taken */
  async onApplicationBootstrap(): Promise<void> {
    const { metricsPort: port, host, isWorker } = this.environment;
    if (port === undefined) return;
    const { registry } = this.metrics;
    if (isWorker) {
      AggregatorRegistry.setRegistries([registry]);
      // Its constructor installs the listener that answers the primary.
      new AggregatorRegistry();
    } else {
      this.endpoint = await MetricsEndpoint.open({ port, host, log: this.log, read: () => registry.metrics() });
    }
  }

  async onApplicationShutdown(): Promise<void> {
    await this.endpoint?.close();
  }
}
