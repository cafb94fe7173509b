import type { NextFunction, Request, Response } from 'express';
import helmet from 'helmet';
import { DOORS } from '../access/doors.js';
import { ProblemException } from '../common/problem.exception.js';
import { problems } from '../common/problems.js';
import { requestIdOf } from '../common/request-id.js';
import { MAX_NAMES, PROTOTYPE_NAMES, refuseField, TOO_MANY_NAMES } from './json-body.js';

const CREDENTIAL_HEADERS = new Set(Object.values(DOORS).flatMap(({ headers }) => headers));
/** A brotli body of 40 bytes makes its decoder fill 16 MB, however early the reader stops (31 ms; gzip: 0.1 ms). */
const CONTENT_ENCODINGS = new Set(['identity', 'gzip', 'deflate']);

// Swagger UI styles itself inline, which the default policy allows; no script is inline. Development has no TLS to upgrade to.
const hardened = helmet({ contentSecurityPolicy: { directives: { 'upgrade-insecure-requests': null } } });

/** All that is decided by a request's head. One function, not one middleware each: every layer costs every validation. */
export function guardHead(request: Request, response: Response, next: NextFunction): void {
  setAnswerHeaders(request, response);
  // Services that validate credentials are no browsers, and call a hundred times as often.
  const isInternal = request.url.startsWith('/internal/');
  if (!isInternal) hardened(request, response, () => undefined);
  refuseAmbiguousHeaders(request);
  if (request.url.includes('?')) refuseHostileQuery(request);
  if (hasBody(request) && !isReadable(request)) throw new ProblemException(problems.unsupportedMediaType);
  if (!isInternal) addPrefix(request);
  next();
}

/** Every answer says which request it belongs to, and is neither sniffed nor, with a secret in it, kept. */
function setAnswerHeaders(request: Request, response: Response): void {
  // Nothing here is cached, so that nothing can be "not modified". An object that lost a property is slow from then on.
  if (request.headers['if-none-match'] !== undefined) delete request.headers['if-none-match'];
  if (request.headers['if-modified-since'] !== undefined) delete request.headers['if-modified-since'];
  response.setHeader('X-Request-Id', requestIdOf(request));
  response.setHeader('X-Content-Type-Options', 'nosniff');
  response.setHeader('Cache-Control', 'no-store');
}

/**
 * Node.js joins or drops a repeated header; which of the two credentials counts must not depend on that. A request of
 * HTTP/1.1 names exactly one host (RFC 9112 §3.2).
 */
function refuseAmbiguousHeaders({ headers, rawHeaders, httpVersion }: Request): void {
  // As many names as lines: nothing came twice. That holds as long as nobody adds a header before this.
  if (Object.keys(headers).length === rawHeaders.length / 2 && headers.host !== undefined) return;
  let seen = '';
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] ?? '').toLowerCase();
    if (name === 'host') hosts += 1;
    if (!CREDENTIAL_HEADERS.has(name)) continue;
    if (seen.includes(`${name} `)) throw new ProblemException(problems.duplicateHeader);
    seen += `${name} `;
  }
  if (hosts > 1 || (hosts === 0 && httpVersion === '1.1')) throw new ProblemException(problems.malformedRequest);
}

/** A parameter that reaches a prototype is dropped on its way to validation, and would pass as if it were not there. */
function refuseHostileQuery(request: Request): void {
  if (request.url.split('&', MAX_NAMES + 1).length > MAX_NAMES) refuseField('', TOO_MANY_NAMES);
  if (!Object.keys(request.query).some((name) => PROTOTYPE_NAMES.has(name))) return;
  refuseField('', 'names a parameter that is not one of this request');
}

function hasBody({ headers }: Request): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

/** Bodies are JSON in UTF-8 (RFC 8259 §8.1). Forms, text and anything unnamed are refused before they are read. */
function isReadable(request: Request): boolean {
  const encoding = request.headers['content-encoding'];
  if (encoding && !CONTENT_ENCODINGS.has(encoding.toLowerCase())) return false;
  const [, charset = 'utf-8'] = /charset="?([^\s";]+)/i.exec(request.headers['content-type'] ?? '') ?? [];
  return request.is('application/json') !== false && /^utf-?8$/i.test(charset);
}

/** The paths of the specification's flow descriptions (`/auth/login`) answer like the listed ones. */
function addPrefix(request: Request): void {
  if (/^\/(auth|users|admin)(\/|$|\?)/i.test(request.url)) request.url = `/api/v0${request.url}`;
}
