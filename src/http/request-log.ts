import type { NextFunction, Request, RequestHandler, Response } from 'express';
import { addressOf } from '../common/client-address.js';
import { callerRequestIdOf, requestIdOf } from '../common/request-id.js';
import type { RequestOutcome } from '../common/request-outcome.js';
import type { Log } from '../logging/log.js';

/** What is known of a request once it is answered. */
export interface Answered {
  readonly request: Request;
  readonly response: Response;
  /** The route's pattern, or `none`: never the path, which may hold anything. */
  readonly route: string;
  readonly status: number;
  readonly durationMs: number;
}

/**
 * One line for each answered request. It names the route's pattern, never the path: a path may hold anything.
 * @param logsValidations whether a credential that was found good is worth a line too; one that was not always is
 * @param count counts each request; undefined when no metrics are served
 */
export function requestLog(log: Log, logsValidations: boolean, count?: (answered: Answered) => void): RequestHandler {
  return (request: Request, response: Response, next: NextFunction) => {
    const startedAt = performance.now();
    response.once('close', () => {
      const route = routeOf(request);
      const status = response.writableFinished ? response.statusCode : 499;
      const durationMs = performance.now() - startedAt;
      count?.({ request, response, route, status, durationMs });
      if ((response.locals as RequestOutcome).isUnlogged) return;
      if (!logsValidations && status === 200 && route.startsWith('/internal/validate-')) return;
      log.about(request, 'info', 'request', {
        request_id: requestIdOf(request),
        caller_request_id: callerRequestIdOf(request),
        method: request.method,
        route,
        status,
        duration_ms: Math.round(durationMs * 10) / 10,
        address: addressOf(request),
      });
    });
    next();
  };
}

function routeOf(request: Request): string {
  const route = request.route as { path?: unknown } | undefined;
  return typeof route?.path === 'string' ? route.path : 'none';
}
