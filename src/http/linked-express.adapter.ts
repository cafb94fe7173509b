import { createServer, IncomingMessage, ServerResponse } from 'node:http';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express } from 'express';
import { answerUnreadable } from './unreadable-request.js';

/** Longer than the idle time-out of common load balancers (60 s), so that they never reuse a connection we just closed. */
const KEEP_ALIVE_MS = 65_000;
/** A request that takes longer to arrive is nobody's. */
const REQUEST_MS = 30_000;

/**
 * Express gives each request and response its own prototypes with `Object.setPrototypeOf`, which throws away
 * what the engine learned about their shape. A server that makes them with those prototypes from the start turns
 * that call into a no-op. See docs/performance.md for what it is worth.
 */
export class LinkedExpressAdapter extends ExpressAdapter {
  private readonly express: Express;

  constructor() {
    const app = express();
    super(app);
    this.express = app;
  }

  override initHttpServer(): void {
    const options = {
      IncomingMessage: constructorLinkedTo(IncomingMessage, this.express.request),
      ServerResponse: constructorLinkedTo(ServerResponse, this.express.response),
      keepAliveTimeout: KEEP_ALIVE_MS,
      requestTimeout: REQUEST_MS,
      // Node.js would answer these two itself, with nothing in the answer: a guard refuses a request without a host,
      requireHostHeader: false,
    };
    const server = createServer(options, this.express).on('clientError', answerUnreadable);
    // and an expectation that nobody knows is ignored (RFC 9110 §10.1.1 allows it).
    this.setHttpServer(server.on('checkExpectation', this.express));
  }
}

/** A constructor that builds like `Base` and whose instances have `prototype` as their prototype. */
function constructorLinkedTo<Base extends new (...parameters: never[]) => object>(base: Base, prototype: object): Base {
  function Linked(...parameters: unknown[]): object {
    return Reflect.construct(base, parameters, Linked) as object;
  }
  Linked.prototype = prototype;
  return Linked as unknown as Base;
}
