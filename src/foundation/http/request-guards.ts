// HTTP around the routes: the server and its limits, checks of a request's head and body, validation, the request log
// and problem responses. A check refuses input that a proxy, Node.js and the validation could understand differently,
// and input that is cheap to send and costly to process. Invariants: every error is a problem of the catalogue; no
// path, body or error message of a caller is logged or sent back.

import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import cors from 'cors';
import type { Request, RequestHandler, Response } from 'express';
import helmet from 'helmet';
import { createRefusal } from '../access/doors.js';
import { DOORS } from '../access/principals.js';
import { SCOPE_HEADER, TARGET_HEADER, type GatewayDoor } from '../access/route-declarations.js';
import { API_PREFIX, isAlias, type KnownPath, type Route, type RouteTable } from '../access/route-table.js';
import { getRequestId } from '../common/ids.js';
import { isLoopback } from '../common/network.js';
import type { Environment } from '../config/environment.js';
import { DEV_MARK } from '../config/variable-kinds.js';
import { ProblemException, formExpected, problems, refuseField } from '../problems/problems.js';

/** Limits the names in a body, nested ones too, and the parameters of a query: the largest have fewer than 20. */
export const MAX_NAMES = 32;
export const TOO_MANY_NAMES = `has more than ${MAX_NAMES} names`;
/** Names that every object inherits, or that reach its prototype, and that no request may use. */
export const PROTOTYPE_NAMES = new Set([...Object.getOwnPropertyNames(Object.prototype), 'prototype']);
const CREDENTIAL_HEADERS = new Set<string>(Object.values(DOORS).flatMap(({ headers }) => headers));
const SINGLE_HEADERS = new Set<string>([...CREDENTIAL_HEADERS, TARGET_HEADER, SCOPE_HEADER]);
const PLATFORM_HEADERS = new Set<string>([...DOORS.app.headers, TARGET_HEADER, SCOPE_HEADER]);
/** Excludes brotli, whose decoder fills 16 MB for a body of 40 bytes, however early the reader stops. */
const CONTENT_ENCODINGS = new Set(['identity', 'gzip', 'deflate']);

/**
 * Swagger UI's inline styles are allowed by helmet's default policy. No upgrade to HTTPS, because development has no
 * TLS.
 */
const CONTENT_SECURITY_POLICY = {
  directives: { 'upgrade-insecure-requests': null, 'base-uri': "'none'", 'frame-ancestors': "'none'" },
};

/** The headers of every answer that a browser may see, also of one that is written without Express (ASVS 3.4). */
export const SECURITY_HEADERS = listSecurityHeaders();

/** Asks helmet once, because its headers are the same for every answer. */
function listSecurityHeaders(): ReadonlyMap<string, string> {
  const headers = new Map<string, string>();
  const setHeader = (name: string, value: string): void => void headers.set(name, value);
  const response = { setHeader, removeHeader: () => undefined } as unknown as Response;
  helmet({ contentSecurityPolicy: CONTENT_SECURITY_POLICY })({} as Request, response, () => undefined);
  return headers;
}

/**
 * Finds the route of a request and checks its head, in one function, because each middleware costs every request.
 * The path comes first, so that an unknown one is 404 whatever the headers are.
 */
export function guardHead(environment: Environment, table: RouteTable): RequestHandler {
  const { serviceName, internalPort, corsOrigins, secretKey } = environment;
  const applyCors = createCorsPolicy(corsOrigins);
  const isSplit = internalPort !== undefined;
  const hasPublicKeys = secretKey.includes(DEV_MARK);
  return (request, response, next) => {
    setCommonHeaders(request, response);
    if (hasPublicKeys) refuseForeignHost(request);
    const known = findPath(request, table);
    const isForServices = known?.audience === 'services' || known?.audience === 'gateways';
    // Services are not browsers, and validate credentials a hundred times as often as a browser calls.
    if (!isForServices) for (const [name, value] of SECURITY_HEADERS) response.setHeader(name, value);
    if (isSplit && known && known.audience !== 'anyone' && !internalSockets.has(request.socket))
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
    if (request.url.includes('?')) refuseHostileQuery(request, isForServices && !request.declared.takesQuery);
    if (hasBody(request)) refuseUnreadableBody(request, request.declared);
    next();
  };
}

/**
 * A page whose name resolves to a loopback address (DNS rebinding) could call a service on the developer's machine, and
 * the keys of `platform-auth dev` are public.
 */
function refuseForeignHost({ headers }: Request): void {
  const name = (headers.host ?? '').replace(/:\d+$/, '').toLowerCase();
  if (!isLoopback(name)) throw new ProblemException(problems.misdirectedRequest);
}

/**
 * Rewrites the URL of a gateway's request to that of its route, and an alias to the path that it stands for.
 * @returns undefined for an unknown path
 */
function findPath(request: Request, table: RouteTable): KnownPath | undefined {
  const known = table.findLiteral(request.url) ?? table.findForGateway(request.url);
  if (known?.audience === 'gateways') {
    // The method and the URL are those of the gateway's client.
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

/** Answers OPTIONS with the methods of the path, and other methods with 405 (RFC 9110 §9.3.7, §15.5.6). */
function answerOtherMethod({ method }: Request, response: Response, { routes }: KnownPath): void {
  const allow = [...routes.keys(), 'OPTIONS'].sort().join(', ');
  if (method !== 'OPTIONS') throw new ProblemException(problems.methodNotAllowed, { headers: { Allow: allow } });
  response.status(204).set('Allow', allow).end();
}

/**
 * The credential is that of the gateway's client, so a repeated one is refused like a wrong one. A repeated target or
 * scope is the gateway's own mistake, and the guard of the route refuses it.
 */
function refuseAmbiguousCredential(request: Request, [door]: readonly [GatewayDoor]): void {
  try {
    refuseAmbiguousHeaders(request, Object.keys(request.headers), CREDENTIAL_HEADERS);
  } catch {
    throw createRefusal(door, 'duplicate_header');
  }
}

/** No response may be sniffed, or cached, because it may contain a secret. */
function setCommonHeaders(request: Request, response: Response): void {
  // Express would answer 304. Deletes only what is present, because `delete` makes access to an object slow.
  if (request.headers['if-none-match'] !== undefined) delete request.headers['if-none-match'];
  if (request.headers['if-modified-since'] !== undefined) delete request.headers['if-modified-since'];
  response.setHeader('X-Request-Id', getRequestId(request));
  response.setHeader('X-Content-Type-Options', 'nosniff');
  response.setHeader('Cache-Control', 'no-store');
}

/**
 * Refuses repeated headers, because Node.js joins some and drops others, which would decide the credential that counts.
 * A request has one host (RFC 9112 §3.2).
 */
function refuseAmbiguousHeaders(
  { headers, rawHeaders, httpVersion }: Request,
  names: readonly string[],
  single = SINGLE_HEADERS,
): void {
  // With as many names as lines no header is repeated. So no earlier middleware may add a header.
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
 * Refuses a target or a scope that the route does not read, because the caller would believe that it was checked. The
 * name of this service is a harmless target.
 * @param names names of a service's headers, of which unknown ones that look like a target are refused too
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
    if (isOfPlatform && !PLATFORM_HEADERS.has(name))
      refuseField('', `${name} is not a header of this service: correct its name, or leave it out`);
  }
}

/** Refuses parameters that the validation does not see (prototypes), and a target that would be ignored. */
function refuseHostileQuery(request: Request, refusesAll: boolean): void {
  if (request.url.split('&', MAX_NAMES + 1).length > MAX_NAMES) refuseField('', TOO_MANY_NAMES);
  const names = Object.keys(request.query);
  const hasMisplacedTarget =
    names.includes('target') && DOORS.app.headers.some((name) => request.headers[name] !== undefined);
  if (refusesAll || hasMisplacedTarget || names.some((name) => PROTOTYPE_NAMES.has(name)))
    refuseField('', 'has a query parameter that this route does not take: leave it out');
}

function hasBody({ headers }: Request): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

/** Requires JSON in UTF-8 (RFC 8259 §8.1), or the form if the route takes one. */
function refuseUnreadableBody(request: Request, { body }: Route): void {
  const encoding = request.headers['content-encoding'];
  const [, charset = 'utf-8'] = /charset="?([^\s";]+)/i.exec(request.headers['content-type'] ?? '') ?? [];
  const mediaType = body === 'form' ? 'application/x-www-form-urlencoded' : 'application/json';
  const isReadable = request.is(mediaType) !== false && /^utf-?8$/i.test(charset);
  if (isReadable && (!encoding || CONTENT_ENCODINGS.has(encoding.toLowerCase()))) return;
  throw new ProblemException(body === 'form' ? formExpected : problems.unsupportedMediaType);
}

const CORS_METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];
const CORS_REQUEST_HEADERS = ['Authorization', 'Content-Type', 'Idempotency-Key', 'X-Admin-Key', 'X-Request-Id'];
const RATE_LIMIT_HEADERS = ['Retry-After', 'RateLimit', 'RateLimit-Policy'];
const CORS_RESPONSE_HEADERS = [...RATE_LIMIT_HEADERS, 'X-Request-Id', 'Location', 'WWW-Authenticate'];
const CORS_MAX_AGE_SECONDS = 600;

/** @returns true when it has answered the request, a preflight */
type CorsPolicy = (request: Request, response: Response) => boolean;

/** Allows pages of the listed origins to call `/api/v0`, without credentials mode, because it has no cookies. */
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

// A proxy denies `/internal/` by prefix. So a request target (RFC 9112 §3.2) that it could resolve to another path than
// the router is refused here, and the router compares paths exactly.

/** The origin form, without characters that URL parsers drop or treat as a slash. */
const ORIGIN_FORM = /^\/[!"$-[\]-~]*$/;
const EMPTY_OR_DOT_SEGMENT = /\/(\/|(\.|%2e){1,2}(\/|$))/i;

// With INTERNAL_PORT, PORT does not serve the routes of services and operators, so that a proxy needs no rule to hide
// them. INTERNAL_PORT serves every route.

const internalSockets = new WeakSet<Socket>();

export function markInternal(server: Server): Server {
  return server.on('connection', (socket: Socket) => internalSockets.add(socket));
}
