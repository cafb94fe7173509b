import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

interface OtlpSpan {
  readonly name: string;
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly attributes: { key: string; value: object }[];
}

interface OtlpExport {
  readonly resourceSpans: { scopeSpans: { spans: OtlpSpan[] }[] }[];
}

/** A collector that takes OTLP over HTTP and keeps every byte. */
export class OtlpCollector {
  /** The bodies that arrived, as text. */
  readonly bodies: string[] = [];
  readonly paths = new Set<string>();

  private constructor(private readonly server: Server) {}

  static async start(): Promise<OtlpCollector> {
    const server = createServer();
    const collector = new OtlpCollector(server);
    server.on('request', (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        collector.paths.add(request.url ?? '');
        collector.bodies.push(Buffer.concat(chunks).toString('latin1'));
        response.writeHead(200, { 'Content-Type': 'application/json' }).end('{}');
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return collector;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** Spans that came as JSON. */
  get spans(): OtlpSpan[] {
    const exports = this.bodies.map((body) => JSON.parse(body) as OtlpExport);
    const scopes = exports.flatMap(({ resourceSpans }) => resourceSpans.flatMap(({ scopeSpans }) => scopeSpans));
    return scopes.flatMap(({ spans }) => spans);
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, 'close');
  }
}
