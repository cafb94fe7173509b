import type { IncomingMessage, ServerResponse } from 'node:http';
import type { JWK } from 'jose';
import type { Cleanup } from '../../tools/cleanup.js';
import { serve } from '../support/serve.js';

/** How an outage looks to a service that asks. */
type Outage = 'connections end' | '503';

/** The address of the service as the libraries know it. Its JWKS has keys of the test's own beside those of the service. */
export class Front {
  outage: Outage | undefined;
  serviceUrl = '';
  url = '';

  private constructor(private readonly ownKeys: readonly JWK[]) {}

  static async start(cleanup: Cleanup, ownKeys: readonly JWK[]): Promise<Front> {
    const front = new Front(ownKeys);
    const { url, close } = await serve((request, response) => front.answer(request, response));
    cleanup.defer(close);
    front.url = url;
    return front;
  }

  private answer(request: IncomingMessage, response: ServerResponse): void {
    if (this.outage === 'connections end') return void request.socket.destroy();
    if (this.outage === undefined) return void this.forward(request, response).catch(() => response.destroy());
    const problem = { type: '/problems/unavailable', title: 'Unavailable', status: 503, code: 'unavailable' };
    response.writeHead(503, { 'Content-Type': 'application/problem+json' }).end(JSON.stringify(problem));
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
    const challenge = answer.headers.get('www-authenticate');
    response
      .writeHead(answer.status, { 'Content-Type': type, ...(challenge && { 'WWW-Authenticate': challenge }) })
      .end(url.endsWith('/jwks.json') ? this.addKeys(text) : text);
  }

  private addKeys(text: string): string {
    const { keys } = JSON.parse(text) as { keys: JWK[] };
    return JSON.stringify({ keys: [...keys, ...this.ownKeys] });
  }
}
