import { createServer, IncomingMessage, ServerResponse, type Server, type ServerOptions } from 'node:http';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express, type Response } from 'express';
import { ConnectionBounds } from './connection-bounds.js';
import { markInternal } from './internal-port.js';
import { refuseOtherMethods } from './known-paths.js';
import { answerUnreadable } from './unreadable-request.js';

/**
 * Longer than the idle timeout of common load balancers (60 s), so that they never reuse a connection we just closed.
 */
const KEEP_ALIVE_TIMEOUT_MS = 65_000;
/** Abort requests that take longer to arrive (slowloris). */
const REQUEST_TIMEOUT_MS = 30_000;

/**
 * Express calls `Object.setPrototypeOf` on each request and response, which discards what V8 learned about their shape.
 * Here the server creates them with these prototypes, so that the call changes nothing. Bare Express on Node.js 20:
 * 12,200 to 33,000 requests/s; on 24: 39,000 without and 36,000 with it, noisy (docs/performance.md).
 */
export class LinkedExpressAdapter extends ExpressAdapter {
  /** Of the server that was created last. */
  bounds!: ConnectionBounds;
  private readonly express: Express;
  private serverOptions: ServerOptions = {};

  constructor() {
    const app = express();
    // Set before the router is created. Paths match exactly, so that a proxy's rule for a prefix cannot be evaded.
    app.set('case sensitive routing', true);
    app.set('strict routing', true);
    super(app);
    this.express = app;
  }

  override initHttpServer(): void {
    class LinkedRequest extends IncomingMessage {}
    class LinkedResponse<T extends IncomingMessage = IncomingMessage> extends ServerResponse<T> {}
    Object.setPrototypeOf(LinkedRequest.prototype, this.express.request);
    Object.setPrototypeOf(LinkedResponse.prototype, this.express.response);
    Object.assign(this.express, { request: LinkedRequest.prototype, response: LinkedResponse.prototype });
    this.serverOptions = {
      IncomingMessage: LinkedRequest,
      ServerResponse: LinkedResponse,
      keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      // Node.js would refuse a request without a host with an empty response; `guardHead` answers with a problem.
      requireHostHeader: false,
    };
    this.setHttpServer(this.createServer());
  }

  /** Creates another server of the same routes, for INTERNAL_PORT. The caller opens and closes it. */
  createInternalServer(): Server {
    return markInternal(this.createServer());
  }

  /** Nest calls this after it has installed all routes. */
  override setNotFoundHandler(...given: Parameters<ExpressAdapter['setNotFoundHandler']>): void {
    this.use(refuseOtherMethods(this.express));
    super.setNotFoundHandler(...given);
  }

  private createServer(): Server {
    const server = createServer(this.serverOptions).on('clientError', answerUnreadable);
    this.bounds = new ConnectionBounds(server, this.express);
    // Headers are bounded by size. A maximum count would drop the rest silently, including the second of two
    // credentials.
    server.maxHeadersCount = 0;
    return server;
  }

  /**
   * Writes plain objects as JSON directly, without Express's checks for caches and media types (docs/performance.md:
   * the step from 68 to 37 µs).
   */
  override reply(response: Response, body: unknown, statusCode?: number): unknown {
    if (!isPlainObject(body)) return super.reply(response, body, statusCode);
    const text = JSON.stringify(body);
    if (statusCode !== undefined) response.statusCode = statusCode;
    response.setHeader('Content-Type', 'application/json; charset=utf-8');
    response.setHeader('Content-Length', Buffer.byteLength(text));
    // Batches the responses to one round of reads, so that a client is woken once: CPU of validate-node 35 to 31 µs
    // (decision 35).
    setImmediate(() => response.end(text));
    return response;
  }
}

function isPlainObject(body: unknown): body is object {
  return typeof body === 'object' && body !== null && body.constructor === Object;
}
