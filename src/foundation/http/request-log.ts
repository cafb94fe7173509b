import type { NextFunction, Request, RequestHandler, Response } from 'express';
import { getOperatorName } from '../access/actor.js';
import { getClientAddress } from '../common/network.js';
import { getCallerRequestId, getRequestId } from '../common/ids.js';
import type { Log } from '../logging/log.js';

export interface CompletedRequest {
  readonly request: Request;
  readonly response: Response;
  /** The route's pattern, or `none`. Never the path, which may contain anything. */
  readonly route: string;
  readonly status: number;
  readonly durationMs: number;
}

/**
 * @param logsSuccesses logs also the successes of routes that declare to log failures only
 * @param counters what counts each completed request
 */
export function createRequestLog(
  log: Log,
  logsSuccesses: boolean,
  counters: readonly { count(request: CompletedRequest): void }[],
): RequestHandler {
  return (request: Request, response: Response, next: NextFunction) => {
    const startedAt = performance.now();
    response.once('close', () => {
      const route = getRoute(request);
      const status = response.writableFinished ? response.statusCode : 499;
      const durationMs = performance.now() - startedAt;
      const completed = { request, response, route, status, durationMs };
      for (const counter of counters) counter.count(completed);
      if (request.refused?.isLogged === false) return;
      const logged = request.declared?.logged;
      if (logged === 'none' || (logged === 'failures' && status === 200 && !logsSuccesses)) return;
      log.writeAbout(request, 'info', 'request', {
        request_id: getRequestId(request),
        caller_request_id: getCallerRequestId(request),
        method: request.method,
        route,
        status,
        duration_ms: Math.round(durationMs * 10) / 10,
        address: getClientAddress(request),
        operator: getOperatorName(request),
      });
    });
    next();
  };
}

function getRoute(request: Request): string {
  const route = request.route as { path?: unknown } | undefined;
  return typeof route?.path === 'string' ? route.path : 'none';
}
