import type { Express, RequestHandler } from 'express';
import { ProblemException } from '../problems/problem.exception.js';
import { problems } from '../problems/problems.js';

/** An element of `listRoutes()` of Express 5.3, which its types do not declare yet. */
interface ListedRoute {
  readonly path: string;
  readonly methods?: readonly string[];
}

interface KnownPath {
  readonly pattern: RegExp;
  readonly methods: readonly string[];
}

/**
 * Answers 405 with `Allow` (RFC 9110 §15.5.6) when no route matched, but the path has other methods; and OPTIONS (§9.3.7).
 * Install it after all routes: the table is built once. Only unmatched requests search it.
 */
export function refuseOtherMethods(app: Express): RequestHandler {
  const known = listKnownPaths(app);
  return ({ method, path }, response, next) => {
    const methods = known.filter(({ pattern }) => pattern.test(path)).flatMap((one) => one.methods);
    const Allow = formatAllow([...methods, 'OPTIONS']);
    if (methods.length === 0) next();
    else if (method === 'OPTIONS') response.status(204).set({ Allow }).end();
    else throw new ProblemException(problems.methodNotAllowed, { headers: { Allow } });
  };
}

/** @returns the path patterns of all routes that are installed, with their methods */
export function listKnownPaths(app: Express): KnownPath[] {
  const routes = (app.router as unknown as { listRoutes(): ListedRoute[] }).listRoutes();
  return routes.flatMap(({ path, methods = [] }) =>
    methods.length > 0 ? [{ pattern: toPattern(path), methods }] : [],
  );
}

/** Parameters (`:id`) stand for one segment, wildcards (`*rest`) for any number. */
function toPattern(path: string): RegExp {
  const literal = path.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${literal.replace(/:\w+/g, '[^/]+').replace(/\\\*\w+/g, '.+')}$`);
}

function formatAllow(methods: readonly string[]): string {
  return [...new Set(methods)].sort().join(', ');
}
