import type { Request } from 'express';
import { ProblemException } from '../common/problem.exception.js';
import { problems } from '../common/problems.js';

// What a request names (RFC 9112 §3.2). A proxy denies `/internal/` by prefix: whatever it could read as another path
// than the router does is refused here, and the router compares paths exactly.

/** Plain segments, without a query: most requests need no second look. */
const PLAIN_PATH = /^(?:\/[\w-]+)+$/;
/** The origin form, without what URL parsers drop, or take for a slash. An absolute form is for proxies, and `*` for none of our routes. */
const ORIGIN_FORM = /^\/[!"$-[\]-~]*$/;
const EMPTY_OR_DOT_SEGMENT = /\/(\/|(\.|%2e){1,2}(\/|$))/i;

/** Whether it asks for one of the routes on which services validate what was presented to them. */
export function isInternal({ url }: Request): boolean {
  return url.startsWith('/internal/');
}

/** @throws {ProblemException} malformed_request when it is not a plain path; not_found when a proxy could resolve it to another path */
export function refuseAmbiguousPath({ url }: Request): void {
  if (PLAIN_PATH.test(url)) return;
  if (!ORIGIN_FORM.test(url)) throw new ProblemException(problems.malformedRequest);
  const [path = ''] = url.split('?', 1);
  if (EMPTY_OR_DOT_SEGMENT.test(path)) throw new ProblemException(problems.notFound);
}

/** The paths of the specification's flow descriptions (`/auth/login`) answer like the listed ones. */
export function addPrefix(request: Request): void {
  if (/^\/(auth|users|admin)(\/|$|\?)/.test(request.url)) request.url = `/api/v0${request.url}`;
}
