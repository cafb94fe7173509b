import { createServer, IncomingMessage, ServerResponse, type Server, type ServerOptions } from 'node:http';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express, type Response } from 'express';
import { ConnectionBounds } from './connection-bounds.js';
import { markInternal } from './internal-port.js';
import { refuseOtherMethods } from './known-paths.js';
import { answerUnreadable } from './unreadable-request.js';

/** Longer than the idle time-out of common load balancers (60 s), so that they never reuse a connection we just closed. */
const KEEP_ALIVE_MS = 65_000;
/** Abort requests that take longer to arrive (slowloris). */
const REQUEST_MS = 30_000;

/**
 * Express gives each request and response its own prototypes with `Object.setPrototypeOf`, which throws away
 * what the engine learned about their shape. Here the server makes them with those prototypes from the start, so that
 * the call changes nothing. See docs/performance.md for what it is worth.
 */
export class LinkedExpressAdapter extends ExpressAdapter {
  /** Bounds of the connections to the server that was created last. */
  bounds!: ConnectionBounds;
  private readonly express: Express;
  private serverOptions: ServerOptions = {};

  constructor() {
    const app = express();
    // The router takes these when it is made, which is soon: paths match exactly, or a proxy's rule for a prefix is evaded.
    app.set('case sensitive routing', true);
    app.set('strict routing', true);
    super(app);
    this.express = app;
  }

  override initHttpServer(): void {
    class LinkedRequest extends IncomingMessage {}
    class LinkedResponse<Asked extends IncomingMessage = IncomingMessage> extends ServerResponse<Asked> {}
    Object.setPrototypeOf(LinkedRequest.prototype, this.express.request);
    Object.setPrototypeOf(LinkedResponse.prototype, this.express.response);
    Object.assign(this.express, { request: LinkedRequest.prototype, response: LinkedResponse.prototype });
    this.serverOptions = {
      IncomingMessage: LinkedRequest,
      ServerResponse: LinkedResponse,
      keepAliveTimeout: KEEP_ALIVE_MS,
      requestTimeout: REQUEST_MS,
      // Node.js would refuse a request without a host itself, with an empty answer: a guard does it.
      requireHostHeader: false,
    };
    this.setHttpServer(this.createServer());
  }

  /** A further server of the same routes, for INTERNAL_PORT. Its caller listens and closes. */
  createInternalServer(): Server {
    return markInternal(this.createServer());
  }

  /** Once all routes are there, and before what answers 404. */
  override setNotFoundHandler(...given: Parameters<ExpressAdapter['setNotFoundHandler']>): void {
    this.use(refuseOtherMethods(this.express));
    super.setNotFoundHandler(...given);
  }

  private createServer(): Server {
    const server = createServer(this.serverOptions).on('clientError', answerUnreadable);
    this.bounds = new ConnectionBounds(server, this.express);
    // Their size is bounded; of more than this it would drop the rest unseen, the second of two credentials too.
    server.maxHeadersCount = 0;
    return server;
  }

  /** Plain values are written as JSON in one go, without what Express looks up for caches and other media types. */
  override reply(response: Response, body: unknown, statusCode?: number): unknown {
    if (!isPlain(body)) return super.reply(response, body, statusCode);
    const text = JSON.stringify(body);
    if (statusCode !== undefined) response.statusCode = statusCode;
    response.setHeader('Content-Type', 'application/json; charset=utf-8');
    response.setHeader('Content-Length', Buffer.byteLength(text));
    // Once all that has arrived is worked through: a caller who waits for many answers is woken once, not at each.
    setImmediate(() => response.end(text));
    return response;
  }
}

function isPlain(body: unknown): body is object {
  return typeof body === 'object' && body !== null && body.constructor === Object;
}
