// HTTP around the routes: the server and its limits, checks of a request's head and body, validation, the request log
// and problem responses. A check refuses input that a proxy, Node.js and the validation could understand differently,
// and input that is cheap to send and costly to process. Invariants: every error is a problem of the catalogue; no
// path, body or error message of a caller is logged or sent back.

import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import cors from 'cors';
import type { Request, RequestHandler, Response } from 'express';
import helmet from 'helmet';
import { createRefusal, DOORS } from '../access/doors.js';
import { SCOPE_HEADER, TARGET_HEADER, type GatewayDoor } from '../access/route-declarations.js';
import { API_PREFIX, isAlias, type KnownPath, type Route, type RouteTable } from '../access/route-table.js';
import { getRequestId } from '../common/ids.js';
import type { Environment } from '../config/environment.js';
import { ProblemException, formExpected, problems, refuseField } from '../problems/problems.js';

/** Applies to the names in a body and to the parameters of a query. The largest request of this service has five. */
export const MAX_NAMES = 32;
export const TOO_MANY_NAMES = `has more than ${MAX_NAMES} names`;
/** Names that every object inherits, or that reach its prototype. They are not fields of any request. */
export const PROTOTYPE_NAMES = new Set([...Object.getOwnPropertyNames(Object.prototype), 'prototype']);
const CREDENTIAL_HEADERS = new Set<string>(Object.values(DOORS).flatMap(({ headers }) => headers));
const SINGLE_HEADERS = new Set<string>([...CREDENTIAL_HEADERS, TARGET_HEADER, SCOPE_HEADER]);
const PLATFORM_HEADERS = new Set<string>([...DOORS.app.headers, TARGET_HEADER, SCOPE_HEADER]);
/** Excludes brotli: 40 bytes make its decoder fill 16 MB, however early the reader stops (31 ms; gzip: 0.1 ms). */
const CONTENT_ENCODINGS = new Set(['identity', 'gzip', 'deflate']);

// Swagger UI uses inline styles, which the default policy allows, and no inline script. Development has no TLS to
// upgrade to.
const setSecurityHeaders = helmet({ contentSecurityPolicy: { directives: { 'upgrade-insecure-requests': null } } });

/**
 * Finds the route of a request, and checks its head, in one function, because each further middleware costs every request.
 * The path is judged first: an unknown one is 404 whatever its headers are. Then the headers, the method, and the rest.
 */
export function guardHead({ serviceName, internalPort, corsOrigins }: Environment, table: RouteTable): RequestHandler {
  const applyCors = createCorsPolicy(corsOrigins);
  const isSplit = internalPort !== undefined;
  return (request, response, next) => {
    setCommonHeaders(request, response);
    const known = findPath(request, table);
    const isForServices = known?.audience === 'services' || known?.audience === 'gateways';
    // Services that validate credentials are not browsers, and call a hundred times as often.
    if (!isForServices) setSecurityHeaders(request, response, () => undefined);
    if (isSplit && known && known.audience !== 'anyone' && !isOnInternalPort(request))
      throw new ProblemException(problems.notFound);
    request.declared = known?.routes.get(request.method);
    if (known?.audience === 'gateways') {
      refuseAmbiguousCredential(request, request.declared?.doors as [GatewayDoor]);
      next();
      return;
    }
    if (applyCors && !isForServices && applyCors(request, response)) return;
    if (!known) throw new ProblemException(problems.notFound);
    const names = Object.keys(request.headers);
    refuseAmbiguousHeaders(request, names);
    if (request.declared === undefined) {
      answerOtherMethod(request, response, known);
      return;
    }
    refuseMisplacedTarget(request, request.declared, isForServices ? names : [], serviceName);
    if (request.url.includes('?')) refuseHostileQuery(request, isForServices);
    if (hasBody(request)) refuseUnreadableBody(request, request.declared);
    next();
  };
}

/** Makes a request of a gateway one for the route itself, and an alias the path that is listed. @returns undefined for an unknown path */
function findPath(request: Request, table: RouteTable): KnownPath | undefined {
  const known = table.findLiteral(request.url) ?? table.findForGateway(request.url);
  if (known?.audience === 'gateways') {
    // Those of the gateway's client, which gateways pass on.
    request.method = 'GET';
    request.url = known.path;
  }
  if (known) return known;
  const [path = ''] = request.url.split('?', 1);
  if (!ORIGIN_FORM.test(request.url)) throw new ProblemException(problems.malformedRequest);
  if (EMPTY_OR_DOT_SEGMENT.test(path)) return undefined;
  if (!isAlias(path)) return table.find(path);
  request.url = API_PREFIX + request.url;
  return table.find(API_PREFIX + path);
}

/** RFC 9110 §9.3.7, §15.5.6. */
function answerOtherMethod({ method }: Request, response: Response, { routes }: KnownPath): void {
  const allow = [...routes.keys(), 'OPTIONS'].sort().join(', ');
  if (method !== 'OPTIONS') throw new ProblemException(problems.methodNotAllowed, { headers: { Allow: allow } });
  response.status(204).set('Allow', allow).end();
}

/**
 * The head is that of the gateway's client. An ambiguous one is refused like a wrong credential. A target or a scope that came
 * twice, which Node.js joins, is the gateway's mistake: the guard of the route refuses it.
 */
function refuseAmbiguousCredential(request: Request, [door]: readonly [GatewayDoor]): void {
  try {
    refuseAmbiguousHeaders(request, Object.keys(request.headers), CREDENTIAL_HEADERS);
  } catch {
    throw createRefusal(door, 'duplicate_header');
  }
}

/** Every response names its request, and may be neither sniffed nor, as it may contain a secret, cached. */
function setCommonHeaders(request: Request, response: Response): void {
  // Express would answer 304. Deleted only where present: `delete` makes an object slow.
  if (request.headers['if-none-match'] !== undefined) delete request.headers['if-none-match'];
  if (request.headers['if-modified-since'] !== undefined) delete request.headers['if-modified-since'];
  response.setHeader('X-Request-Id', getRequestId(request));
  response.setHeader('X-Content-Type-Options', 'nosniff');
  response.setHeader('Cache-Control', 'no-store');
}

/** Node.js joins or drops a repeated header, and which credential counts must not depend on that. One host: RFC 9112 §3.2. */
function refuseAmbiguousHeaders(
  { headers, rawHeaders, httpVersion }: Request,
  names: readonly string[],
  single = SINGLE_HEADERS,
): void {
  // No header is repeated when there are as many names as lines. No middleware before this one may add a header.
  if (names.length === rawHeaders.length / 2 && headers.host !== undefined) return;
  let seen = '';
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] ?? '').toLowerCase();
    if (name === 'host') hosts += 1;
    if (!single.has(name)) continue;
    if (seen.includes(`${name} `)) throw new ProblemException(problems.duplicateHeader);
    seen += `${name} `;
  }
  if (hosts > 1 || (hosts === 0 && httpVersion === '1.1')) throw new ProblemException(problems.malformedRequest);
}

/**
 * Refuses a target or a scope that would be ignored, because the caller would believe that it was checked. A target that names
 * this service is ignored everywhere.
 * @param names of the headers of a service, where one that is unknown or looks like a target is refused too
 */
function refuseMisplacedTarget(
  { headers }: Request,
  route: Route,
  names: readonly string[],
  serviceName: string,
): void {
  const named = headers[TARGET_HEADER];
  if (named !== undefined && named !== serviceName && !route.headers.includes(TARGET_HEADER))
    refuseField('', 'X-Platform-Target is not read by this route');
  if (headers[SCOPE_HEADER] !== undefined && !route.headers.includes(SCOPE_HEADER))
    refuseField('', 'X-Platform-Scope is not read by this route');
  for (const name of names) {
    const isOfPlatform = name.endsWith('target') || name.startsWith('x-platform-');
    if (isOfPlatform && !PLATFORM_HEADERS.has(name)) refuseField('', 'a header is not part of this request');
  }
}

/** The validation does not see a parameter that reaches a prototype, and a target beside an app key would be ignored. */
function refuseHostileQuery(request: Request, isForServices: boolean): void {
  if (request.url.split('&', MAX_NAMES + 1).length > MAX_NAMES) refuseField('', TOO_MANY_NAMES);
  const names = Object.keys(request.query);
  const hasMisplacedTarget =
    names.includes('target') && DOORS.app.headers.some((name) => request.headers[name] !== undefined);
  if (isForServices || hasMisplacedTarget || names.some((name) => PROTOTYPE_NAMES.has(name)))
    refuseField('', 'contains a parameter that is not part of this request');
}

function hasBody({ headers }: Request): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

/** The body must be JSON in UTF-8 (RFC 8259 §8.1), or the form that the route takes. */
function refuseUnreadableBody(request: Request, { body }: Route): void {
  const encoding = request.headers['content-encoding'];
  const [, charset = 'utf-8'] = /charset="?([^\s";]+)/i.exec(request.headers['content-type'] ?? '') ?? [];
  const mediaType = body === 'form' ? 'application/x-www-form-urlencoded' : 'application/json';
  const isReadable = request.is(mediaType) !== false && /^utf-?8$/i.test(charset);
  if (isReadable && (!encoding || CONTENT_ENCODINGS.has(encoding.toLowerCase()))) return;
  throw new ProblemException(body === 'form' ? formExpected : problems.unsupportedMediaType);
}

const CORS_METHODS = ['GET', 'HEAD', 'POST', 'PATCH', 'DELETE'];
const CORS_REQUEST_HEADERS = ['Authorization', 'Content-Type', 'Idempotency-Key', 'X-Admin-Key', 'X-Request-Id'];
const RATE_LIMIT_HEADERS = ['Retry-After', 'RateLimit', 'RateLimit-Policy'];
const CORS_RESPONSE_HEADERS = [...RATE_LIMIT_HEADERS, 'X-Request-Id', 'Location', 'WWW-Authenticate'];
const CORS_MAX_AGE_SECONDS = 600;

/** @returns whether it has answered the request, which was a preflight */
type CorsPolicy = (request: Request, response: Response) => boolean;

/** Lets browser pages of listed origins call `/api/v0`, without credentials mode: `/api/v0` uses no cookies. */
function createCorsPolicy(origins: readonly string[] = []): CorsPolicy | undefined {
  if (origins.length === 0) return undefined;
  const apply = cors({
    origin: [...origins],
    methods: CORS_METHODS,
    allowedHeaders: CORS_REQUEST_HEADERS,
    exposedHeaders: CORS_RESPONSE_HEADERS,
    maxAge: CORS_MAX_AGE_SECONDS,
  });
  return (request, response) => {
    const { method, headers, url } = request;
    if (!url.startsWith(`${API_PREFIX}/`)) return false;
    if (method === 'OPTIONS' && headers['access-control-request-method'] === undefined) return false;
    let isAnswered = true;
    apply(request, response, () => (isAnswered = false));
    return isAnswered;
  };
}

// The request target (RFC 9112 §3.2). A proxy denies `/internal/` by prefix: a target that it could resolve to another
// path than the router does is refused here, and the router compares paths exactly.

/** The origin form, without characters that URL parsers drop or take for a slash. */
const ORIGIN_FORM = /^\/[!"$-[\]-~]*$/;
const EMPTY_OR_DOT_SEGMENT = /\/(\/|(\.|%2e){1,2}(\/|$))/i;

// With INTERNAL_PORT the routes of services and operators are served on that port only, so that the proxy needs no rule
// to hide them from the public. That port serves every route; PORT serves all others.

const internalSockets = new WeakSet<Socket>();

export function markInternal(server: Server): Server {
  return server.on('connection', (socket: Socket) => internalSockets.add(socket));
}

function isOnInternalPort({ socket }: Request): boolean {
  return internalSockets.has(socket);
}
