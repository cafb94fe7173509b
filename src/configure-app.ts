import type { NestExpressApplication } from '@nestjs/platform-express';
import { serveDocs } from './docs.js';
import { Environment } from './config/environment.js';
import { ProblemFilter } from './http/problem.filter.js';
import { parseJson, readBytes } from './http/json-body.js';
import { guardHead } from './http/request-guards.js';
import { requestLog } from './http/request-log.js';
import { validationPipe } from './http/validation.js';
import { Log } from './logging/log.js';
import { SecurityEvents } from './logging/security-events.js';
import { RequestCounts } from './metrics/request-counts.js';

/** Everything that stands around the routes, in the order in which a request meets it. Used by main and by the tests. */
export function configureApp(app: NestExpressApplication): void {
  const log = app.get(Log);
  const environment = app.get(Environment);
  const counts = app.get(RequestCounts);
  const count = environment.metricsPort === undefined ? undefined : counts.count.bind(counts);
  app.set('etag', false);
  app.set('trust proxy', environment.trustProxy);
  app.disable('x-powered-by');
  app.use(requestLog(log, environment.logsValidations, count));
  app.use(guardHead(environment), readBytes, parseJson);
  app.useGlobalPipes(validationPipe());
  app.useGlobalFilters(new ProblemFilter(log, app.get(SecurityEvents)));
  serveDocs(app);
}
