import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';

/** Where to pause the caller: before a request reaches the service, or after its response. */
export interface Cut {
  /** Counted from 1. */
  readonly request: number;
  readonly when: 'before' | 'after';
}

/** A proxy between a caller and the service that pauses the caller at one step, or answers in place of the service. */
export class HttpGate {
  readonly seen: string[] = [];
  /** Answers in place of the service, by method and path. */
  readonly replaced = new Map<string, readonly [status: number, type: string, body: string]>();
  private cut: Cut | undefined;
  private reached: () => void = () => undefined;
  private resumed: Promise<void> = Promise.resolve();
  /** Continues the paused request, if the caller still runs. */
  resume: () => void = () => undefined;

  private constructor(
    private readonly server: Server,
    private readonly target: string,
  ) {
    server.on('request', (request: IncomingMessage, response: ServerResponse) => void this.pass(request, response));
  }

  static async before(target: string): Promise<HttpGate> {
    const server = createServer({ keepAliveTimeout: 0 }).listen(0, '127.0.0.1').unref();
    await once(server, 'listening');
    return new HttpGate(server, target);
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /**
   * Forwards everything up to a step.
   * @returns when that step is reached
   */
  stopAt(cut: Cut | undefined): Promise<void> {
    this.seen.length = 0;
    this.cut = cut;
    this.resumed = new Promise((resolve) => (this.resume = resolve));
    return new Promise((resolve) => (this.reached = resolve));
  }

  close(): void {
    this.server.close();
    this.server.closeAllConnections();
  }

  private async pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const route = `${request.method} ${request.url}`;
    const number = this.seen.push(route);
    const stopsHere = (when: Cut['when']): boolean => this.cut?.request === number && this.cut.when === when;
    let body = '';
    for await (const chunk of request) body += String(chunk);
    if (stopsHere('before')) {
      this.reached();
      await this.resumed;
    }
    const [status, type = '', replacement] = this.replaced.get(route) ?? [];
    if (status !== undefined) {
      response.writeHead(status, { 'content-type': type }).end(replacement);
      return;
    }
    const headers = new Headers(request.headers as Record<string, string>);
    for (const name of ['host', 'connection', 'content-length', 'transfer-encoding']) headers.delete(name);
    const answer = await fetch(this.target + request.url!, { method: request.method!, headers, ...(body && { body }) });
    const text = await answer.text();
    if (stopsHere('after')) {
      this.reached();
      await this.resumed;
    }
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' }).end(text);
  }
}
