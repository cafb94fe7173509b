import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';
import { ConnectionBounds } from '../http/connection-bounds.js';
import { errorFields } from '../logging/log-line.js';
import type { Log } from '../logging/log.js';

/** A scrape is one short line, sent at once. */
const REQUEST_MS = 5_000;

export interface MetricsEndpointOptions {
  readonly port: number;
  readonly host: string;
  readonly log: Log;
  /** What there is to show, at each scrape. */
  readonly read: () => Registry | Promise<Registry>;
}

/** `GET /metrics` on a port of its own, and 404 for the rest. */
export class MetricsEndpoint {
  private constructor(
    private readonly server: Server,
    private readonly options: MetricsEndpointOptions,
  ) {
    new ConnectionBounds(server, (request, response) => void this.answer(request, response));
  }

  /** @throws when the port is taken */
  static async open(options: MetricsEndpointOptions): Promise<MetricsEndpoint> {
    const server = createServer({ requestTimeout: REQUEST_MS, headersTimeout: REQUEST_MS });
    const endpoint = new MetricsEndpoint(server, options);
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(options.port, options.host, resolve);
    });
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
    if (method !== 'GET' || url?.split('?')[0] !== '/metrics') {
      response.writeHead(404).end();
      return;
    }
    try {
      const registry = await this.options.read();
      const text = await registry.metrics();
      response.writeHead(200, { 'Content-Type': registry.contentType, 'Cache-Control': 'no-store' }).end(text);
    } catch (error) {
      this.options.log.failure('metrics_failed', { error: errorFields(error) });
      response.writeHead(500).end();
    }
  }
}
