import type { NextFunction, Request, RequestHandler, Response } from 'express';
import { requestIdOf } from '../common/request-id.js';
import type { Log } from '../logging/log.js';

/**
 * One line for each answered request. It names the route's pattern, never the path: a path may hold anything.
 * @param logsValidations whether a credential that was found good is worth a line too; one that was not always is
 */
export function requestLog(log: Log, logsValidations: boolean): RequestHandler {
  return (request: Request, response: Response, next: NextFunction) => {
    const startedAt = performance.now();
    response.once('close', () => {
      if (!logsValidations && isGoodValidation(request, response)) return;
      log.about(request, 'info', 'request', {
        request_id: requestIdOf(request),
        method: request.method,
        route: routeOf(request),
        status: response.writableFinished ? response.statusCode : 499,
        duration_ms: Math.round((performance.now() - startedAt) * 10) / 10,
        address: request.ip,
      });
    });
    next();
  };
}

function isGoodValidation({ url }: Request, { statusCode, writableFinished }: Response): boolean {
  return statusCode === 200 && writableFinished && url.startsWith('/internal/validate-');
}

function routeOf(request: Request): string {
  const route = request.route as { path?: unknown } | undefined;
  return typeof route?.path === 'string' ? route.path : 'none';
}
