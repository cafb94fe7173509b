// The HTTP server of the application: Express with linked prototypes, an exact router, bounds of connections, and
// problem responses to what is not valid HTTP. test/foundation/http/hostile-requests.spec.ts and
// connection-bounds.spec.ts fail without it.

import { createServer, IncomingMessage, ServerResponse, STATUS_CODES, type Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express, type Response } from 'express';
import { createRandomId } from '../common/ids.js';
import { problems, toProblemBody, type Problem } from '../problems/problems.js';
import { ConnectionBounds, CONNECTIONS_CHECKING_INTERVAL_MS } from './connection-bounds.js';
import { markInternal, SECURITY_HEADERS } from './request-guards.js';

/**
 * Longer than the 60 s of common load balancers, so that they never reuse a connection that this service just closed.
 */
const KEEP_ALIVE_TIMEOUT_MS = 65_000;
/** Aborts requests that take longer to arrive (slowloris). */
const REQUEST_TIMEOUT_MS = 30_000;

/**
 * Express calls `Object.setPrototypeOf` on each request and response, which discards what V8 learned about their shape.
 * This server creates them with Express's prototypes, so that the call changes nothing (docs/decisions/0024).
 */
export class LinkedExpressAdapter extends ExpressAdapter {
  /** The bounds of the last created server. */
  bounds!: ConnectionBounds;
  private readonly express: Express;
  private serverOptions = {};

  constructor() {
    const app = express();
    // Must precede the creation of the router. Exact paths prevent evasion of a proxy's rule for a prefix.
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
      connectionsCheckingInterval: CONNECTIONS_CHECKING_INTERVAL_MS,
      // Node.js would answer a request without a host with an empty response, `guardHead` answers with a problem.
      requireHostHeader: false,
    };
    this.setHttpServer(this.createServer());
  }

  /** Creates a second server of the same routes, for INTERNAL_PORT. Its caller opens and closes it. */
  createInternalServer(): Server {
    return markInternal(this.createServer());
  }

  private createServer(): Server {
    const server = createServer(this.serverOptions).on('clientError', answerUnreadable);
    this.bounds = new ConnectionBounds(server, this.express);
    // Headers are limited by size only: a maximum count would drop the rest silently, including the second of two
    // credentials.
    server.maxHeadersCount = 0;
    return server;
  }

  /** Writes plain objects without Express, which would first check caches and media types. */
  override reply(response: Response, body: unknown, statusCode?: number): unknown {
    if (!isPlainObject(body)) return super.reply(response, body, statusCode);
    const text = JSON.stringify(body);
    if (statusCode !== undefined) response.statusCode = statusCode;
    response.setHeader('Content-Type', 'application/json; charset=utf-8');
    response.setHeader('Content-Length', Buffer.byteLength(text));
    // Sends all responses to one round of reads together, so that a client is woken once (decision 35).
    setImmediate(() => response.end(text));
    return response;
  }
}

function isPlainObject(body: unknown): body is object {
  return typeof body === 'object' && body !== null && body.constructor === Object;
}

const UNREADABLE: Readonly<Record<string, Problem>> = {
  HPE_HEADER_OVERFLOW: problems.headersTooLarge,
  ERR_HTTP_REQUEST_TIMEOUT: problems.requestTimeout,
};

/** Answers a request that is not valid HTTP, too slow, or whose headers are too large. The connection is closed. */
function answerUnreadable(error: Error & { code?: string }, socket: Duplex): void {
  if (!socket.writable || error.code === 'ECONNRESET') return void socket.destroy();
  const problem = UNREADABLE[error.code ?? ''] ?? problems.malformedRequest;
  const { status } = problem;
  const body = JSON.stringify(toProblemBody(problem, createRandomId()));
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'Content-Type: application/problem+json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Cache-Control: no-store',
    'X-Content-Type-Options: nosniff',
    ...Array.from(SECURITY_HEADERS, ([name, value]) => `${name}: ${value}`),
    'Connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}
