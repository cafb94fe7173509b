import { isUtf8 } from 'node:buffer';
import { json, type NextFunction, type Request, type Response } from 'express';
import helmet from 'helmet';
import { DOORS } from '../access/doors.js';
import { ProblemException } from '../common/problem.exception.js';
import { problems, type FieldError } from '../common/problems.js';
import { requestIdOf } from '../common/request-id.js';

const CREDENTIAL_HEADERS = new Set(Object.values(DOORS).flatMap(({ headers }) => headers));
const MAX_DEPTH = 16;
/** Names that every object knows already, or that reach its prototype. They are no field of anything. */
const PROTOTYPE_NAMES = new Set([...Object.getOwnPropertyNames(Object.prototype), 'prototype']);

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
  if (hasBody(request) && !isUtf8Json(request)) throw new ProblemException(problems.unsupportedMediaType);
  if (!isInternal) {
    refuseDotSegments(request);
    addPrefix(request);
  }
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
function refuseHostileQuery({ query }: Request): void {
  if (!Object.keys(query).some((name) => PROTOTYPE_NAMES.has(name))) return;
  const errors = [{ pointer: '', detail: 'names a parameter that is not one of this request' }];
  throw new ProblemException(problems.validationFailed, { errors });
}

function hasBody({ headers }: Request): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

/** Bodies are JSON in UTF-8 (RFC 8259 §8.1). Forms, text and anything unnamed are refused before they are read. */
function isUtf8Json(request: Request): boolean {
  const [, charset = 'utf-8'] = /charset="?([^\s";]+)/i.exec(request.headers['content-type'] ?? '') ?? [];
  return request.is('application/json') !== false && /^utf-?8$/i.test(charset);
}

/** The files of the documentation answer a path that climbs with a redirect, which repeats whatever the query holds. */
function refuseDotSegments({ url }: Request): void {
  if (/^\/docs[^?]*\/(\.|%2e){1,2}(\/|\?|$)/i.test(url)) throw new ProblemException(problems.notFound);
}

/** The paths of the specification's flow descriptions (`/auth/login`) answer like the listed ones. */
function addPrefix(request: Request): void {
  if (/^\/(auth|users|admin)(\/|$|\?)/i.test(request.url)) request.url = `/api/v0${request.url}`;
}

/** Reads a JSON body of at most 100 KB, after decompression. */
export const readJson = json({
  limit: '100kb',
  verify: (_request, _response, bytes) => {
    // Decoded all the same, whatever is no UTF-8 becomes U+FFFD, and two passwords become one.
    if (!isUtf8(bytes))
      throw Object.assign(new Error('The body is no UTF-8'), { status: problems.malformedRequest.status });
  },
});

/**
 * Refuses bodies that would harm what comes after: not an object, nested deeply (validation is recursive), with
 * names that reach a prototype, or with text that is not well-formed Unicode (different lone surrogates encode alike).
 */
export function refuseHostileJson(request: Request, _response: Response, next: NextFunction): void {
  const body: unknown = request.body;
  if (body === undefined) {
    next();
    return;
  }
  if (Array.isArray(body)) throw new ProblemException(problems.malformedRequest);
  const pending: { value: unknown; pointer: string; depth: number }[] = [{ value: body, pointer: '', depth: 0 }];
  for (let item = pending.pop(); item; item = pending.pop()) {
    const { value, pointer, depth } = item;
    if (typeof value === 'string' && !value.isWellFormed()) refuseField(pointer, 'must be well-formed Unicode');
    if (typeof value !== 'object' || value === null) continue;
    if (depth === MAX_DEPTH) throw new ProblemException(problems.bodyTooDeep);
    for (const [name, child] of Object.entries<unknown>(value as Record<string, unknown>)) {
      if (PROTOTYPE_NAMES.has(name)) refuseField(pointer || `/${name}`, 'is or holds what is no field of this request');
      pending.push({ value: child, pointer: `${pointer}/${pointerToken(name)}`, depth: depth + 1 });
    }
  }
  next();
}

/** A field's name as a JSON Pointer token (RFC 6901), where it looks like a field's name and not like a payload. */
export function pointerToken(name: string): string {
  return /^([a-z_]{1,32}|\d{1,3})$/.test(name) ? name : '?';
}

function refuseField(pointer: string, detail: string): never {
  const errors: FieldError[] = [{ pointer, detail }];
  throw new ProblemException(problems.validationFailed, { errors });
}
