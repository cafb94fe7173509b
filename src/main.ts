import { createServer } from 'node:net';
import { InvalidEnvironment, parseEnvironment, readVariables, type Environment } from './config/environment.js';
import { createApp } from './create-app.js';
import type { EmbeddedPostgres } from './database/embedded-postgres.js';
import { startEmbeddedDatabase, welcome, withSecrets } from './first-run.js';
import { stopGracefully } from './graceful-stop.js';

async function main(): Promise<void> {
  const given = readVariables();
  const isProduction = given.NODE_ENV === 'production';
  const variables = isProduction ? given : withSecrets(given);
  const needsDatabase = !isProduction && !variables.DATABASE_URL;
  // Checked before anything is started: a bad variable or a taken port must leave nothing behind.
  let environment = parseEnvironment(
    needsDatabase ? { ...variables, DATABASE_URL: 'postgresql://embedded' } : variables,
  );
  await refuseTakenPort(environment);
  const embedded: EmbeddedPostgres | undefined = needsDatabase ? await startEmbeddedDatabase() : undefined;
  if (embedded) environment = { ...environment, databaseUrl: embedded.url() };
  try {
    const app = await createApp(environment);
    stopGracefully(app, async () => embedded?.stop());
    await app.listen(environment.port, environment.host);
    if (environment.nodeEnv === 'development') console.log(welcome(environment));
  } catch (error) {
    await embedded?.stop();
    throw error;
  }
}

/** Node.js reports a taken port only once everything else is up. */
async function refuseTakenPort({ host, port }: Environment): Promise<void> {
  const probe = createServer();
  await new Promise<void>((resolve, reject) => {
    probe.once('error', reject);
    probe.listen(port, host, () => probe.close(() => resolve()));
  });
}

main().catch((error: unknown) => {
  console.error(explain(error));
  process.exit(1);
});

function explain(error: unknown): string {
  if (error instanceof InvalidEnvironment) return error.message;
  const { code, port, message } = error as NodeJS.ErrnoException & { port?: number };
  if (code === 'EADDRINUSE') {
    return `Port ${port ?? ''} is taken: the service may be running already. Stop it, or choose another port: PORT=7702 npm start`;
  }
  if (code === 'ECONNREFUSED') return 'The database at DATABASE_URL refuses connections. Is it running?';
  return `The service could not start: ${message}`;
}
