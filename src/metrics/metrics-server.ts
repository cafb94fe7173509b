import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import type { Registry } from 'prom-client';
import { Environment } from '../config/environment.js';
import { PasswordHasher } from '../crypto/password-hasher.js';
import { Database } from '../database/database.js';
import { errorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';
import { RequestCounts } from './request-counts.js';
import { ScrapedGauges } from './scraped-gauges.js';

/** A scrape is one short line; whoever sends more slowly is no Prometheus. */
const REQUEST_MS = 5_000;

/** `GET /metrics` on a port of its own, which the public never sees. Without `METRICS_PORT` there is none. */
@Injectable()
export class MetricsServer implements OnApplicationBootstrap, OnApplicationShutdown {
  private server: Server | undefined;

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
    return (this.server?.address() as AddressInfo | null | undefined)?.port;
  }

  /** @throws when the port is taken */
  async onApplicationBootstrap(): Promise<void> {
    const { metricsPort, host } = this.environment;
    if (metricsPort === undefined) return;
    // Loaded only here: whoever does not look pays nothing.
    const { expositionOf } = await import('./exposition.js');
    const registry = expositionOf(this);
    const server = createServer({ requestTimeout: REQUEST_MS, headersTimeout: REQUEST_MS });
    server.on('request', (request, response) => void this.answer(registry, request, response));
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(metricsPort, host, resolve);
    });
    this.server = server;
  }

  async onApplicationShutdown(): Promise<void> {
    const { server } = this;
    if (!server) return;
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  }

  private async answer(registry: Registry, { method, url }: IncomingMessage, response: ServerResponse): Promise<void> {
    if (method !== 'GET' || url?.split('?')[0] !== '/metrics') {
      response.writeHead(404).end();
      return;
    }
    try {
      const text = await registry.metrics();
      response.writeHead(200, { 'Content-Type': registry.contentType, 'Cache-Control': 'no-store' }).end(text);
    } catch (error) {
      this.log.failure('metrics_failed', { error: errorFields(error) });
      response.writeHead(500).end();
    }
  }
}
