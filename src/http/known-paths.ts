import type { Express, RequestHandler } from 'express';
import { ProblemException } from '../common/problem.exception.js';
import { problems } from '../common/problems.js';

/** What `listRoutes()` of Express 5.3 says of a path; its types do not have the method yet. */
interface ListedRoute {
  readonly path: string;
  readonly methods?: readonly string[];
}

interface KnownPath {
  readonly pattern: RegExp;
  readonly methods: readonly string[];
}

/**
 * For requests that no route took: a path that has other methods answers 405 with `Allow` (RFC 9110 §15.5.6), OPTIONS
 * included. The table is made once, from the routes that are there by then; no other request pays for it.
 */
export function refuseOtherMethods(app: Express): RequestHandler {
  const known = knownPaths((app.router as unknown as { listRoutes(): ListedRoute[] }).listRoutes());
  return ({ path }, _response, next) => {
    const methods = known.filter(({ pattern }) => pattern.test(path)).flatMap((one) => one.methods);
    if (methods.length === 0) next();
    else throw new ProblemException(problems.methodNotAllowed, { headers: { Allow: allowOf(methods) } });
  };
}

function knownPaths(routes: readonly ListedRoute[]): KnownPath[] {
  return routes.flatMap(({ path, methods = [] }) =>
    methods.length > 0 ? [{ pattern: patternOf(path), methods }] : [],
  );
}

/** Parameters (`:id`) stand for one segment, wildcards (`*rest`) for any number. */
function patternOf(path: string): RegExp {
  const literal = path.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${literal.replace(/:\w+/g, '[^/]+').replace(/\\\*\w+/g, '.+')}$`);
}

function allowOf(methods: readonly string[]): string {
  return [...new Set(methods)].sort().join(', ');
}
