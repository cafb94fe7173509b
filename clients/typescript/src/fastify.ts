import type { FastifyReply, FastifyRequest } from 'fastify';
import { guard } from './guard.js';
import { toPresentedRequest } from './presented-request.js';
import type { Door, RequestAuth } from './principals.js';
import type { VerifierCore } from './verifier-core.js';

declare module 'fastify' {
  interface FastifyRequest {
    /** The caller: the fields of the door that the route requires. */
    auth: RequestAuth;
  }
}

/** For `onRequest`: before the body is read. */
export type GuardHook = (request: FastifyRequest, reply: FastifyReply, done: () => void) => void;

/** Admits requests with a valid key of another service, for this one; sets `request.auth`. */
export const requireApp = (verifier: VerifierCore): GuardHook => createHook(verifier, 'app');

/** Admits requests with a valid key of a node; sets `request.auth`. */
export const requireNode = (verifier: VerifierCore): GuardHook => createHook(verifier, 'node');

/** Admits requests with a valid access token of a user; sets `request.auth`. */
export const requireUser = (verifier: VerifierCore): GuardHook => createHook(verifier, 'user');

function createHook(verifier: VerifierCore, door: Door): GuardHook {
  // With a callback, which a refusal never calls. After a promise Fastify runs the route when the client has left meanwhile.
  return (request, reply, done) => {
    void guard(verifier, door, toPresentedRequest(request)).then((outcome) => {
      if ('auth' in outcome) {
        request.auth = outcome.auth;
        done();
        return;
      }
      const { status, headers, body } = outcome.refusal;
      void reply.code(status).headers(headers).send(JSON.stringify(body));
    });
  };
}
