import type { NextFunction, Request, Response } from 'express';
import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  admit,
  createAnyGuard,
  createAppGuard,
  createMemberGuard,
  createOptionalGuard,
  NODE_GUARD,
  createUserGuard,
  type Guard,
  type MemberRoute,
  type UserOf,
} from './guard.js';
import type { UserDemands } from './delegation.js';
import type { AnyUserPrincipal, AppPrincipal, Door, NodePrincipal, Principal, UserPrincipal } from './principals.js';
import type { Doors } from './refusals.js';
import type { AppDemands, VerifierCore } from './verifier-core.js';

export { findPrincipal, getPrincipal } from './guard.js';

type Next = (error?: unknown) => void;

/** A request that a guard has admitted, with its caller. */
export type GuardedRequest<Identity> = Request & { readonly auth: Identity };

/** A handler for requests that a guard has admitted. */
export type GuardedHandler<Identity> = (
  request: GuardedRequest<Identity>,
  response: Response,
  next: NextFunction,
) => unknown;

/** Middleware for Express 4 and 5, and for every framework that takes Connect's. Sets `request.auth`. */
export interface GuardMiddleware<Identity> {
  (request: IncomingMessage, response: ServerResponse, next: Next): void;
  /** The guard with a handler that knows the type of `request.auth`. */
  handle(handler: GuardedHandler<Identity>): (request: Request, response: Response, next: NextFunction) => void;
}

/** Admits requests with a valid key of another service for this one, and with the scope, if one is demanded. */
export const requireApp = (verifier: VerifierCore, demands?: AppDemands): GuardMiddleware<AppPrincipal> =>
  createMiddleware(verifier, createAppGuard(demands));

/** Admits requests with a valid key of a node. */
export const requireNode = (verifier: VerifierCore): GuardMiddleware<NodePrincipal> =>
  createMiddleware(verifier, NODE_GUARD);

/**
 * Admits requests with a valid access token of a user. With `delegated`, also those of a service on behalf of a user, with the
 * scope, if one is demanded; `request.auth.caller` is that service, or null.
 */
export const requireUser = <const Demands extends UserDemands = object>(
  verifier: VerifierCore,
  demands?: Demands,
): GuardMiddleware<UserOf<Demands>> => createMiddleware(verifier, createUserGuard(demands));

/** Admits requests with a valid access token of a user who lives in the household, and has the role, if one is demanded. */
export const requireMember = (verifier: VerifierCore, route: MemberRoute<Request>): GuardMiddleware<UserPrincipal> =>
  createMiddleware(verifier, createMemberGuard(route));

/** Admits requests by the first of these doors for which they present a credential, if that one is valid. */
export const requireAny = <D extends Door>(verifier: VerifierCore, doors: Doors<D>): GuardMiddleware<Principal<D>> =>
  createMiddleware(verifier, createAnyGuard(doors));

/** As `requireAny`, and admits requests without a credential, with `request.auth` undefined. */
export const optionalAuth = <D extends Door>(
  verifier: VerifierCore,
  doors: Doors<D>,
): GuardMiddleware<Principal<D> | undefined> => createMiddleware(verifier, createOptionalGuard(doors));

function createMiddleware<D extends Door, Identity extends Principal | AnyUserPrincipal | undefined>(
  verifier: VerifierCore,
  guard: Guard<D, Identity>,
): GuardMiddleware<Identity> {
  const middleware = (request: IncomingMessage, response: ServerResponse, next: Next): void => {
    admit(guard, verifier, request, request)
      .then((refusal) => {
        if (!refusal) {
          next();
          return;
        }
        if (response.headersSent) return;
        response.writeHead(refusal.status, refusal.headers).end(JSON.stringify(refusal.body));
      })
      .catch(next);
  };
  const handle: GuardMiddleware<Identity>['handle'] = (handler) => (request, response, next) => {
    middleware(request, response, (error) => {
      if (error !== undefined) next(error);
      else callHandler(handler, request as GuardedRequest<Identity>, response, next);
    });
  };
  return Object.assign(middleware, { handle });
}

/** Express 4 does not catch the rejection of an asynchronous handler. */
function callHandler<Identity>(
  handler: GuardedHandler<Identity>,
  request: GuardedRequest<Identity>,
  response: Response,
  next: NextFunction,
): void {
  const called = new Promise((resolve) => {
    resolve(handler(request, response, next));
  });
  called.catch(next);
}
