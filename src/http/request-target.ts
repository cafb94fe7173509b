import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Request } from 'express';
import type { Door } from '../access/principals.js';
import { ProblemException, problems } from '../problems/problems.js';

// The request target (RFC 9112 §3.2). A proxy denies `/internal/` by prefix: a target that it could resolve to another
// path than the router does is refused here, and the router compares paths exactly.

/** Plain segments without a query, as most requests have: they need no further check. */
const PLAIN_PATH = /^(?:\/[\w-]+)+$/;
/**
 * The origin form, without characters that URL parsers drop or take for a slash. Not the absolute form (for proxies) or
 * `*`.
 */
const ORIGIN_FORM = /^\/[!"$-[\]-~]*$/;
const GATEWAY_PATH = /^\/internal\/authorize\/(?<door>node|app|user)(?=[/?]|$)/;
const EMPTY_OR_DOT_SEGMENT = /\/(\/|(\.|%2e){1,2}(\/|$))/i;

/** The doors that gateways ask about. */
export type GatewayDoor = Exclude<Door, 'admin'>;

/** Whether the request is for a route on which services validate the credentials of their callers. */
export function isInternal({ url }: Request): boolean {
  return url.startsWith('/internal/');
}

/** Whether it is a gateway's question about a request of its own client. */
export function isForGateway(url: string): boolean {
  return GATEWAY_PATH.test(url);
}

/**
 * Replaces the method and the path of the gateway's client, which gateways pass on, by those of the route.
 * @returns the door of the route
 */
export function rewriteGatewayRequest(request: Request): GatewayDoor {
  const { door } = GATEWAY_PATH.exec(request.url)?.groups ?? {};
  request.method = 'GET';
  request.url = `/internal/authorize/${door}`;
  return door as GatewayDoor;
}

/**
 * @throws {ProblemException} malformed_request when it is not in origin form; not_found when a proxy could resolve it
 *   to another path
 */
export function refuseAmbiguousPath({ url }: Request): void {
  if (PLAIN_PATH.test(url)) return;
  if (!ORIGIN_FORM.test(url)) throw new ProblemException(problems.malformedRequest);
  const [path = ''] = url.split('?', 1);
  if (EMPTY_OR_DOT_SEGMENT.test(path)) throw new ProblemException(problems.notFound);
}

/** Makes the paths of the specification's flow descriptions (`/auth/login`) aliases of the listed ones. */
export function addPrefix(request: Request): void {
  if (/^\/(auth|users|admin)(\/|$|\?)/.test(request.url)) request.url = `/api/v0${request.url}`;
}

// With INTERNAL_PORT the routes of services and operators are served on that port only, so that the proxy needs no rule
// to hide them from the public. That port serves every route; PORT serves all others.

const INTERNAL_ONLY_PATH = /^\/(internal|api\/v0\/admin)(\/|\?|$)/;
const internalSockets = new WeakSet<Socket>();

/** Marks each connection of the server as one to the internal port. */
export function markInternal(server: Server): Server {
  return server.on('connection', (socket: Socket) => internalSockets.add(socket));
}

export function isOnInternalPort({ socket }: Request): boolean {
  return internalSockets.has(socket);
}

/** Whether the public port hides the route. Call it after `addPrefix`. */
export function isInternalOnly({ url }: Request): boolean {
  return INTERNAL_ONLY_PATH.test(url);
}
