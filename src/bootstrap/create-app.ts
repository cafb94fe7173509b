import type { Server } from 'node:http';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { AppModule } from '../app.module.js';
import { StartWatch } from '../common/start-watch.js';
import type { Environment } from '../config/environment.js';
import { configureApp } from './configure-app.js';
import { LinkedExpressAdapter } from '../http/linked-express.adapter.js';
import { NestLogger } from '../logging/console.js';

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

/** Creates the server of INTERNAL_PORT, with the same routes, not yet listening. */
export function createInternalServer(app: NestExpressApplication): Server {
  return (app.getHttpAdapter() as unknown as LinkedExpressAdapter).createInternalServer();
}
