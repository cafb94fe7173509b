import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { AggregatorRegistry, Registry } from 'prom-client';
import { Environment } from '../config/environment.js';
import { ConnectionBounds, CONNECTIONS_CHECKING_INTERVAL_MS } from '../http/connection-bounds.js';
import { toErrorFields, Log } from '../logging/log.js';
import { MetricsRegistry } from './metrics-registry.js';

/** Aborts requests that take longer to arrive (slowloris). */
const REQUEST_TIMEOUT_MS = 5_000;

interface MetricsEndpointOptions {
  readonly port: number;
  readonly host: string;
  readonly log: Log;
  readonly read: () => Promise<string>;
}

export class MetricsEndpoint {
  private constructor(
    private readonly server: Server,
    private readonly options: MetricsEndpointOptions,
  ) {
    new ConnectionBounds(server, (request, response) => void this.answer(request, response));
  }

  /** @throws when the port is taken */
  static async open(options: MetricsEndpointOptions): Promise<MetricsEndpoint> {
    const server = createServer({
      requestTimeout: REQUEST_TIMEOUT_MS,
      headersTimeout: REQUEST_TIMEOUT_MS,
      connectionsCheckingInterval: CONNECTIONS_CHECKING_INTERVAL_MS,
    });
    const endpoint = new MetricsEndpoint(server, options);
    await once(server.listen(options.port, options.host), 'listening');
    return endpoint;
  }

  get port(): number | undefined {
    return (this.server.address() as AddressInfo | null)?.port;
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.server.closeAllConnections();
    await closed;
  }

  private async answer({ method, url }: IncomingMessage, response: ServerResponse): Promise<void> {
    if (method !== 'GET' || url?.split('?')[0] !== '/metrics') return void response.writeHead(404).end();
    try {
      const text = await this.options.read();
      const headers = { 'Content-Type': Registry.PROMETHEUS_CONTENT_TYPE, 'Cache-Control': 'no-store' };
      response.writeHead(200, headers).end(text);
    } catch (error) {
      this.options.log.error('metrics_failed', { error: toErrorFields(error) });
      response.writeHead(500).end();
    }
  }
}

/**
 * Answers the primary, which sends its question to each worker. Called with none before a worker waits for its database,
 * because one worker without an answer fails the whole scrape.
 */
export function answerPrimary(registries: Registry[]): void {
  AggregatorRegistry.setRegistries(registries);
  // The constructor installs the listener, once.
  new AggregatorRegistry();
}

/** Serves `/metrics` on `METRICS_PORT` of `METRICS_HOST`. A worker sends its metrics to the primary instead, which has the port. */
@Injectable()
export class MetricsServer implements OnApplicationBootstrap, OnApplicationShutdown {
  private endpoint: MetricsEndpoint | undefined;

  constructor(
    private readonly environment: Environment,
    private readonly metrics: MetricsRegistry,
    private readonly log: Log,
  ) {}

  get port(): number | undefined {
    return this.endpoint?.port;
  }

  async onApplicationBootstrap(): Promise<void> {
    const { metricsPort: port, metricsHost: host, isWorker } = this.environment;
    if (port === undefined) return;
    const { registry } = this.metrics;
    if (isWorker) answerPrimary([registry]);
    else this.endpoint = await MetricsEndpoint.open({ port, host, log: this.log, read: () => registry.metrics() });
  }

  async onApplicationShutdown(): Promise<void> {
    await this.endpoint?.close();
  }
}
