// A known path with another method is a 405 with `Allow` (RFC 9110 §15.5.6), also when the body is wrong too, and OPTIONS is
// answered (§9.3.7). Without it, test/foundation/http/paths.spec.ts fails.

import type { ErrorRequestHandler, Express, Request, RequestHandler } from 'express';
import { ProblemException, problems } from '../problems/problems.js';

interface KnownPath {
  readonly pattern: RegExp;
  /** The number of its parameters. A wildcard counts as more than all of them. */
  readonly parameters: number;
  readonly methods: readonly string[];
}

interface KnownPaths {
  /** The methods of each path without parameters. */
  readonly literal: ReadonlyMap<string, readonly string[]>;
  readonly patterns: readonly KnownPath[];
}

const KNOWN_PATHS = new WeakMap<Express, KnownPaths>();

/** Answers what no route has answered. To be installed after all routes. */
export const refuseOtherMethods: RequestHandler = (request, response, next) => {
  const methods = findMethods(request.app as Express, request.path);
  if (methods.length === 0) next();
  else if (request.method === 'OPTIONS') response.status(204).set('Allow', toAllow(methods)).end();
  else throw createProblem(methods);
};

/** Prefers the 405 to what a middleware before the routes has found wrong with the body or the query. */
export const preferOtherMethod: ErrorRequestHandler = (error: unknown, request, _response, next) => {
  const methods = isAboutContent(error) ? findMethods(request.app as Express, request.path) : [];
  const isOther = methods.length > 0 && request.method !== 'OPTIONS' && !methods.includes(request.method);
  next(isOther ? createProblem(methods) : error);
};

/** Refuses another method of `/nodes/summary`, which a route of `/nodes/:node_id` would answer. */
export function refuseOtherMethodOfLiteral({ app, method, path }: Request): void {
  const methods = readKnownPaths(app as Express).literal.get(path);
  if (methods && method !== 'OPTIONS' && !methods.includes(method)) throw createProblem(methods);
}

/** 404 is about the path, and a doubled credential is refused on any path and by any method. */
function isAboutContent(error: unknown): boolean {
  if (error instanceof ProblemException && error.problem === problems.duplicateHeader) return false;
  const status = error instanceof ProblemException ? error.problem.status : (error as { status?: unknown }).status;
  return status === 400 || status === 413 || status === 415;
}

/** @returns none when no route has the path */
export function findMethods(app: Express, path: string): readonly string[] {
  const { literal, patterns } = readKnownPaths(app);
  // A literal name precedes a parameter: `/passkeys/options` is not `/passkeys/:id`.
  const found = literal.get(path);
  if (found) return found;
  const matching = patterns.filter(({ pattern }) => pattern.test(path));
  const fewest = Math.min(...matching.map(({ parameters }) => parameters));
  return matching.filter(({ parameters }) => parameters === fewest).flatMap(({ methods }) => methods);
}

function createProblem(methods: readonly string[]): ProblemException {
  return new ProblemException(problems.methodNotAllowed, { headers: { Allow: toAllow(methods) } });
}

function toAllow(methods: readonly string[]): string {
  return [...new Set([...methods, 'OPTIONS'])].sort().join(', ');
}

/** Reads the routes once: all are installed before the first request. */
function readKnownPaths(app: Express): KnownPaths {
  const known = KNOWN_PATHS.get(app) ?? listKnownPaths(app);
  KNOWN_PATHS.set(app, known);
  return known;
}

function listKnownPaths(app: Express): KnownPaths {
  // The types of Express 5.3 do not declare `listRoutes()` yet.
  const router = app.router as unknown as { listRoutes(): { readonly path: string; readonly methods?: string[] }[] };
  const literal = new Map<string, readonly string[]>();
  const patterns: KnownPath[] = [];
  for (const { path, methods = [] } of router.listRoutes()) {
    const parameters = path.includes('*') ? Infinity : path.split(':').length - 1;
    if (methods.length === 0) continue;
    if (parameters === 0) literal.set(path, [...(literal.get(path) ?? []), ...methods]);
    else patterns.push({ pattern: toPattern(path), parameters, methods });
  }
  return { literal, patterns };
}

/** Parameters (`:id`) stand for one segment, wildcards (`{*rest}`) for any number. */
function toPattern(path: string): RegExp {
  const literal = path.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${literal.replace(/:\w+/g, '[^/]+').replace(/\\\{\\\*\w+\\\}/g, '.*')}$`);
}
