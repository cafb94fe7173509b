import type { Server } from 'node:http';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { AppModule } from '../app.module.js';
import { StartWatch } from '../common/start-watch.js';
import { Environment } from '../config/environment.js';
import { serveDocs } from './docs/serve-docs.js';
import { ProblemFilter } from '../problems/problem.filter.js';
import { parseJson, readBytes, createValidationPipe } from '../http/validation.js';
import { guardHead } from '../http/request-guards.js';
import { createRequestLog } from '../http/request-log.js';
import { Log, NestLogger } from '../logging/log.js';
import { RequestMetrics } from '../metrics/request-metrics.js';
import { LinkedExpressAdapter } from '../http/linked-express.adapter.js';

const LEVELS_WITH_VALIDATIONS = new Set(['debug', 'trace']);

/** Creates the application: configured, connected to the database, not yet listening. */
export async function createApp(environment: Environment, watch = new StartWatch()): Promise<NestExpressApplication> {
  const options = { bodyParser: false, abortOnError: false, logger: new NestLogger(environment) };
  const app = await watch.during('the connections to the database', () =>
    NestFactory.create<NestExpressApplication>(
      AppModule.forRoot(environment, watch),
      new LinkedExpressAdapter(),
      options,
    ),
  );
  configureApp(app);
  await watch.during('the first answers of the database (feed of revocations, jobs)', () => app.init());
  return app;
}

/** Installs what surrounds the routes, in the order in which a request passes it. */
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

export function createInternalServer(app: NestExpressApplication): Server {
  return (app.getHttpAdapter() as unknown as LinkedExpressAdapter).createInternalServer();
}
