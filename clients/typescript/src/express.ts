import type { IncomingMessage, ServerResponse } from 'node:http';
import { guard } from './guard.js';
import type { Door, RequestAuth } from './principals.js';
import type { VerifierCore } from './verifier-core.js';

declare global {
  // Merges with the declaration of @types/express.
  // eslint-disable-next-line @typescript-eslint/no-namespace
  namespace Express {
    interface Request {
      /** The caller: the fields of the door that the route requires. */
      auth: RequestAuth;
    }
  }
}

/** Middleware for Express 4 and 5, and for every framework that takes Connect's. */
export type GuardMiddleware = (
  request: IncomingMessage & { auth?: RequestAuth },
  response: ServerResponse,
  next: (error?: unknown) => void,
) => void;

/** Admits requests with a valid key of another service, for this one; sets `request.auth`. */
export const requireApp = (verifier: VerifierCore): GuardMiddleware => createMiddleware(verifier, 'app');

/** Admits requests with a valid key of a node; sets `request.auth`. */
export const requireNode = (verifier: VerifierCore): GuardMiddleware => createMiddleware(verifier, 'node');

/** Admits requests with a valid access token of a user; sets `request.auth`. */
export const requireUser = (verifier: VerifierCore): GuardMiddleware => createMiddleware(verifier, 'user');

function createMiddleware(verifier: VerifierCore, door: Door): GuardMiddleware {
  return (request, response, next) => {
    guard(verifier, door, request)
      .then((outcome) => {
        if ('auth' in outcome) {
          request.auth = outcome.auth;
          next();
          return;
        }
        if (response.headersSent) return;
        const { status, headers, body } = outcome.refusal;
        response.writeHead(status, headers).end(JSON.stringify(body));
      })
      .catch(next);
  };
}
