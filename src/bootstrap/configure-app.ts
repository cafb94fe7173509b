import type { NestExpressApplication } from '@nestjs/platform-express';
import { serveDocs } from './docs/serve-docs.js';
import { Environment } from '../config/environment.js';
import { ProblemFilter } from '../problems/problem.filter.js';
import { parseJson, readBytes } from '../http/json-body.js';
import { guardHead } from '../http/request-guards.js';
import { createRequestLog } from '../http/request-log.js';
import { createValidationPipe } from '../http/validation.js';
import { Log } from '../logging/log.js';
import { RequestMetrics } from '../metrics/request-metrics.js';

const LEVELS_WITH_VALIDATIONS = new Set(['debug', 'trace']);

/**
 * Installs what surrounds the routes, in the order in which a request passes it. Used by the service and by the tests.
 */
export function configureApp(app: NestExpressApplication): void {
  const log = app.get(Log);
  const environment = app.get(Environment);
  const metrics = app.get(RequestMetrics);
  const count = environment.metricsPort === undefined ? undefined : metrics.count.bind(metrics);
  app.set('etag', false);
  app.set('trust proxy', environment.trustProxy);
  app.disable('x-powered-by');
  app.use(createRequestLog(log, LEVELS_WITH_VALIDATIONS.has(environment.logLevel), count));
  app.use(guardHead(environment), readBytes, parseJson);
  app.useGlobalPipes(createValidationPipe());
  app.useGlobalFilters(new ProblemFilter(log));
  serveDocs(app);
}
