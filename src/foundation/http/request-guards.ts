// HTTP around the routes: the server and its limits, checks of a request's head and body, validation, the request log
// and problem responses. A check refuses input that a proxy, Node.js and the validation could understand differently,
// and input that is cheap to send and costly to process. Invariants: every error is a problem of the catalogue; no
// path, body or error message of a caller is logged or sent back.

import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import cors from 'cors';
import type { Request, RequestHandler, Response } from 'express';
import helmet from 'helmet';
import { createRefusal, DOORS, SCOPE_HEADER, TARGET_HEADER } from '../access/doors.js';
import type { Door } from '../access/actor.js';
import { getRequestId } from '../common/ids.js';
import type { Environment } from '../config/environment.js';
import { ProblemException, formExpected, problems, refuseField } from '../problems/problems.js';
import { refuseOtherMethodOfLiteral } from './known-paths.js';

/** Applies to the names in a body and to the parameters of a query. The largest request of this service has five. */
export const MAX_NAMES = 32;
export const TOO_MANY_NAMES = `has more than ${MAX_NAMES} names`;
/** The only route of the API that takes a form (RFC 7662). */
const FORM_ROUTE = '/internal/introspect';
const CONSOLE = /^\/console(\/|$)/;
/** Names that every object inherits, or that reach its prototype. They are not fields of any request. */
export const PROTOTYPE_NAMES = new Set([...Object.getOwnPropertyNames(Object.prototype), 'prototype']);
const CREDENTIAL_HEADERS = new Set<string>(Object.values(DOORS).flatMap(({ headers }) => headers));
const SINGLE_HEADERS = new Set<string>([...CREDENTIAL_HEADERS, TARGET_HEADER, SCOPE_HEADER]);
const PLATFORM_HEADERS = new Set<string>([...DOORS.app.headers, TARGET_HEADER, SCOPE_HEADER]);
const READS_TARGET = /^\/internal\/validate-(app|node)(\?|$)/;
const VALIDATE_APP = /^\/internal\/validate-app(\?|$)/;
/** Excludes brotli: 40 bytes make its decoder fill 16 MB, however early the reader stops (31 ms; gzip: 0.1 ms). */
const CONTENT_ENCODINGS = new Set(['identity', 'gzip', 'deflate']);

// Swagger UI uses inline styles, which the default policy allows, and no inline script. Development has no TLS to
// upgrade to.
const setSecurityHeaders = helmet({ contentSecurityPolicy: { directives: { 'upgrade-insecure-requests': null } } });

/** Checks the head of a request, in one function, because each further middleware costs every request. */
export function guardHead({ serviceName, internalPort, corsOrigins }: Environment): RequestHandler {
  const applyCors = createCorsPolicy(corsOrigins);
  const isSplit = internalPort !== undefined;
  return (request, response, next) => {
    setCommonHeaders(request, response);
    const isForServices = isInternal(request);
    if (isForServices && isForGateway(request.url)) {
      guardGatewayHead(request, isSplit);
      next();
      return;
    }
    // Services that validate credentials are not browsers, and call a hundred times as often.
    if (!isForServices) setSecurityHeaders(request, response, () => undefined);
    refuseAmbiguousPath(request);
    if (!isForServices) addPrefix(request);
    if (isSplit && isInternalOnly(request) && !isOnInternalPort(request)) throw new ProblemException(problems.notFound);
    if (applyCors && !isForServices && applyCors(request, response)) return;
    const names = Object.keys(request.headers);
    refuseAmbiguousHeaders(request, names);
    refuseMisplacedTarget(request, isForServices ? names : [], serviceName);
    if (request.url.includes('?')) refuseHostileQuery(request, isForServices);
    if (!isForServices) refuseOtherMethodOfLiteral(request);
    if (hasBody(request) && !isReadable(request))
      throw new ProblemException(takesForm(request.url) ? formExpected : problems.unsupportedMediaType);
    next();
  };
}

/**
 * The head is that of the gateway's client. An ambiguous one is refused like a wrong credential. A target or a scope that came
 * twice, which Node.js joins, is the gateway's mistake: the guard of the route refuses it.
 */
function guardGatewayHead(request: Request, isSplit: boolean): void {
  const door = rewriteGatewayRequest(request);
  if (isSplit && !isOnInternalPort(request)) throw new ProblemException(problems.notFound);
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
 * Refuses a target or a scope that would be ignored, because the caller would believe that it was checked:
 * `X-Platform-Target` is read on validate-app and validate-node only, and must name this service elsewhere.
 * @param names of the headers on `/internal/`, where one that is unknown or looks like a target is refused too
 */
function refuseMisplacedTarget({ headers, url }: Request, names: readonly string[], serviceName: string): void {
  const named = headers[TARGET_HEADER];
  if (named !== undefined && named !== serviceName && !READS_TARGET.test(url))
    refuseField('', 'X-Platform-Target is read by /internal/validate-app and /internal/validate-node only');
  if (headers[SCOPE_HEADER] !== undefined && !VALIDATE_APP.test(url))
    refuseField('', 'X-Platform-Scope is read by /internal/validate-app only');
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

/** Introspection, and the pages of the console. */
export function takesForm(url: string): boolean {
  return url === FORM_ROUTE || CONSOLE.test(url);
}

function hasBody({ headers }: Request): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

/** Whether the body is JSON in UTF-8 (RFC 8259 §8.1), or the one form. */
function isReadable(request: Request): boolean {
  const encoding = request.headers['content-encoding'];
  if (encoding && !CONTENT_ENCODINGS.has(encoding.toLowerCase())) return false;
  const [, charset = 'utf-8'] = /charset="?([^\s";]+)/i.exec(request.headers['content-type'] ?? '') ?? [];
  const mediaType = takesForm(request.url) ? 'application/x-www-form-urlencoded' : 'application/json';
  return request.is(mediaType) !== false && /^utf-?8$/i.test(charset);
}

const API_PREFIX = '/api/v0/';
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
    if (!url.startsWith(API_PREFIX)) return false;
    if (method === 'OPTIONS' && headers['access-control-request-method'] === undefined) return false;
    let isAnswered = true;
    apply(request, response, () => (isAnswered = false));
    return isAnswered;
  };
}

// The request target (RFC 9112 §3.2). A proxy denies `/internal/` by prefix: a target that it could resolve to another
// path than the router does is refused here, and the router compares paths exactly.

/** Plain segments without a query, as most requests have: they need no further check. */
const PLAIN_PATH = /^(?:\/[\w-]+)+$/;
/** The origin form, without characters that URL parsers drop or take for a slash. */
const ORIGIN_FORM = /^\/[!"$-[\]-~]*$/;
const GATEWAY_PATH = /^\/internal\/authorize\/(?<door>node|app|user)(?=[/?]|$)/;
const EMPTY_OR_DOT_SEGMENT = /\/(\/|(\.|%2e){1,2}(\/|$))/i;

export type GatewayDoor = Exclude<Door, 'admin'>;

function isInternal({ url }: Request): boolean {
  return url.startsWith('/internal/');
}

export function isForGateway(url: string): boolean {
  return GATEWAY_PATH.test(url);
}

/** Replaces the method and the path of the gateway's client, which gateways pass on. @returns the door of the route */
function rewriteGatewayRequest(request: Request): GatewayDoor {
  const { door } = GATEWAY_PATH.exec(request.url)?.groups ?? {};
  request.method = 'GET';
  request.url = `/internal/authorize/${door}`;
  return door as GatewayDoor;
}

function refuseAmbiguousPath({ url }: Request): void {
  if (PLAIN_PATH.test(url)) return;
  if (!ORIGIN_FORM.test(url)) throw new ProblemException(problems.malformedRequest);
  const [path = ''] = url.split('?', 1);
  if (EMPTY_OR_DOT_SEGMENT.test(path)) throw new ProblemException(problems.notFound);
}

/** Makes the paths of the specification's flow descriptions (`/auth/login`) aliases of the listed ones. */
function addPrefix(request: Request): void {
  if (/^\/(auth|users|admin)(\/|$|\?)/.test(request.url)) request.url = `/api/v0${request.url}`;
}

// With INTERNAL_PORT the routes of services and operators are served on that port only, so that the proxy needs no rule
// to hide them from the public. That port serves every route; PORT serves all others.

const INTERNAL_ONLY_PATH = /^\/(internal|api\/v0\/admin|console)(\/|\?|$)/;
const internalSockets = new WeakSet<Socket>();

export function markInternal(server: Server): Server {
  return server.on('connection', (socket: Socket) => internalSockets.add(socket));
}

function isOnInternalPort({ socket }: Request): boolean {
  return internalSockets.has(socket);
}

/** To be called after `addPrefix`. */
function isInternalOnly({ url }: Request): boolean {
  return INTERNAL_ONLY_PATH.test(url);
}
