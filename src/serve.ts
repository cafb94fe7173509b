import { createServer } from 'node:net';
import { InvalidEnvironment, parseEnvironment, readVariables, type Environment } from './config/environment.js';
import { createApp } from './create-app.js';
import type { EmbeddedPostgres } from './database/embedded-postgres.js';
import { startEmbeddedDatabase, welcome, withSecrets } from './first-run.js';
import { stopGracefully } from './graceful-stop.js';
import type { StopTracing } from './tracing.js';

/** Most of the time between the stop's delay and its deadline belongs to requests; so much of it to their traces. */
const TRACING_SHARE = 4;

/** Starts the service, or says why it cannot and exits. */
export async function serve(stopTracing?: StopTracing): Promise<void> {
  try {
    await start(stopTracing);
  } catch (error) {
    console.error(explain(error));
    process.exit(1);
  }
}

async function start(stopTracing?: StopTracing): Promise<void> {
  const given = readVariables();
  const isProduction = given.NODE_ENV === 'production';
  const variables = isProduction ? given : withSecrets(given);
  const needsDatabase = !isProduction && !variables.DATABASE_URL;
  // Checked before anything is started: a bad variable or a taken port must leave nothing behind.
  let environment = parseEnvironment(
    needsDatabase ? { ...variables, DATABASE_URL: 'postgresql://embedded' } : variables,
  );
  await refuseTakenPort(environment, 'PORT', environment.port);
  if (environment.metricsPort !== undefined)
    await refuseTakenPort(environment, 'METRICS_PORT', environment.metricsPort);
  const embedded: EmbeddedPostgres | undefined = needsDatabase ? await startEmbeddedDatabase() : undefined;
  if (embedded) environment = { ...environment, databaseUrl: embedded.url() };
  try {
    const app = await createApp(environment);
    const { shutdownDelayMs, shutdownDeadlineMs } = environment;
    stopGracefully(app, async () => {
      await stopTracing?.((shutdownDeadlineMs - shutdownDelayMs) / TRACING_SHARE);
      await embedded?.stop();
    });
    await app.listen(environment.port, environment.host);
    if (environment.nodeEnv === 'development') console.log(welcome(environment));
  } catch (error) {
    await embedded?.stop();
    throw error;
  }
}

/** Node.js reports a taken port only once everything else is up. */
async function refuseTakenPort({ host }: Environment, variable: string, port: number): Promise<void> {
  const probe = createServer();
  await new Promise<void>((resolve, reject) => {
    probe.once('error', (error) => reject(Object.assign(error, { variable })));
    probe.listen(port, host, () => probe.close(() => resolve()));
  });
}

function explain(error: unknown): string {
  if (error instanceof InvalidEnvironment) return error.message;
  const { code, port, message, variable } = error as NodeJS.ErrnoException & { port?: number; variable?: string };
  if (code === 'EADDRINUSE' && variable === 'METRICS_PORT') {
    return `Port ${port ?? ''} is taken: choose another METRICS_PORT.`;
  }
  if (code === 'EADDRINUSE') {
    return `Port ${port ?? ''} is taken: the service may be running already. Stop it, or choose another port: PORT=7702 npm start`;
  }
  if (code === 'ECONNREFUSED') return 'The database at DATABASE_URL refuses connections. Is it running?';
  return `The service could not start: ${message}`;
}
