import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { JWK } from 'jose';
import { claimPort } from '../../tools/claim-port.js';
import type { Cleanup } from '../../tools/cleanup.js';

/** How an outage looks to a service that asks. */
export type Outage = 'connections end' | '503';

/** The address of the service as the libraries know it. Its JWKS has keys of the test's own beside those of the service. */
export class Front {
  outage: Outage | undefined;
  private readonly server: Server;

  private constructor(
    private readonly serviceUrl: string,
    private readonly ownKeys: readonly JWK[],
    private readonly port: number,
  ) {
    this.server = createServer((request, response) => {
      if (this.outage === 'connections end') return void request.socket.destroy();
      if (this.outage === '503') {
        const problem = { type: '/problems/unavailable', title: 'Unavailable', status: 503, code: 'unavailable' };
        return void response
          .writeHead(503, { 'Content-Type': 'application/problem+json' })
          .end(JSON.stringify(problem));
      }
      this.forward(request, response).catch(() => response.destroy());
    });
  }

  static async start(cleanup: Cleanup, serviceUrl: string, ownKeys: readonly JWK[]): Promise<Front> {
    const front = new Front(serviceUrl, ownKeys, await claimPort());
    front.server.listen(front.port, '127.0.0.1');
    await once(front.server, 'listening');
    cleanup.defer(() => {
      front.server.close();
      front.server.closeAllConnections();
    });
    return front;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  private async forward(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = 'GET', url = '/', headers } = request;
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const forwarded = new Headers();
    for (const name of ['authorization', 'content-type', 'accept']) {
      const value = headers[name];
      if (typeof value === 'string') forwarded.set(name, value);
    }
    const body = chunks.length > 0 ? Buffer.concat(chunks) : undefined;
    const answer = await fetch(this.serviceUrl + url, { method, headers: forwarded, ...(body && { body }) });
    const type = answer.headers.get('content-type') ?? 'text/plain';
    const text = await answer.text();
    response
      .writeHead(answer.status, { 'Content-Type': type })
      .end(url.endsWith('/jwks.json') ? this.addKeys(text) : text);
  }

  private addKeys(text: string): string {
    const { keys } = JSON.parse(text) as { keys: JWK[] };
    return JSON.stringify({ keys: [...keys, ...this.ownKeys] });
  }
}
