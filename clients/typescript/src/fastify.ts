import type { FastifyReply, FastifyRequest } from 'fastify';
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
} from './guard.js';
import { toPresentedRequest } from './presented-request.js';
import type { UserDemands } from './delegation.js';
import type { AnyUserPrincipal, Door, Principal } from './principals.js';
import type { Doors } from './refusals.js';
import type { AppDemands, VerifierCore } from './verifier-core.js';

export { findPrincipal, getPrincipal } from './guard.js';

declare module 'fastify' {
  interface FastifyRequest {
    /** The caller, told apart by its `door`; undefined where no guard has run. `getPrincipal` returns it with its type. */
    auth?: Principal | AnyUserPrincipal | undefined;
  }
}

/** A hook for `onRequest`, which runs before the body is read. Sets `request.auth`. */
export type GuardHook = (request: FastifyRequest, reply: FastifyReply, done: () => void) => void;

/** Admits requests with a valid key of another service for this one, and with the scope, if one is demanded. */
export const requireApp = (verifier: VerifierCore, demands?: AppDemands): GuardHook =>
  createHook(verifier, createAppGuard(demands));

/** Admits requests with a valid key of a node. */
export const requireNode = (verifier: VerifierCore): GuardHook => createHook(verifier, NODE_GUARD);

/**
 * Admits requests with a valid access token of a user. With `delegated`, also those of a service on behalf of a user, with the
 * scope, if one is demanded; `caller` of the principal is that service, or null.
 */
export const requireUser = (verifier: VerifierCore, demands?: UserDemands): GuardHook =>
  createHook(verifier, createUserGuard(demands));

/** Its parameters are texts. */
type RoutedRequest = FastifyRequest<{ Params: Readonly<Record<string, string | undefined>> }>;

/** Admits requests with a valid access token of a user who lives in the household, and has the role, if one is demanded. */
export const requireMember = (verifier: VerifierCore, route: MemberRoute<RoutedRequest>): GuardHook =>
  createHook(verifier, createMemberGuard(route));

/** Admits requests by the first of these doors for which they present a credential, if that one is valid. */
export const requireAny = (verifier: VerifierCore, doors: Doors): GuardHook =>
  createHook(verifier, createAnyGuard(doors));

/** As `requireAny`, and admits requests without a credential, with `request.auth` undefined. */
export const optionalAuth = (verifier: VerifierCore, doors: Doors): GuardHook =>
  createHook(verifier, createOptionalGuard(doors));

function createHook<D extends Door>(
  verifier: VerifierCore,
  guard: Guard<D, Principal | AnyUserPrincipal | undefined>,
): GuardHook {
  // Takes a callback, which a refusal never calls. After a promise, Fastify would run the route when the client has
  // left meanwhile.
  return (request, reply, done) => {
    void admit(guard, verifier, toPresentedRequest(request), request).then((refusal) => {
      if (!refusal) {
        done();
        return;
      }
      void reply.code(refusal.status).headers(refusal.headers).send(JSON.stringify(refusal.body));
    });
  };
}
