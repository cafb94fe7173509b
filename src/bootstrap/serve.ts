// The start of the service: variables, secrets, ports, the embedded database of development, then the application in
// this process (serve-app.ts) or in several (workers.ts). Invariant: tracing.ts is loaded first, because it patches
// modules while they load. What only some starts need is imported when they need it.
import { fileURLToPath } from 'node:url';
import { probePort } from '../foundation/common/network.js';
import {
  parseEnvironment,
  readSecretFiles,
  readVariables,
  readWorkerEnvironment,
  selectWorkerVariables,
  type Environment,
} from '../foundation/config/environment.js';
import type { EmbeddedPostgres } from '../foundation/embedded-postgres/embedded-postgres.js';
import { ensureSecrets, formatWelcome, startEmbeddedDatabase } from './first-run.js';
import { installLastResort } from './last-resort.js';
import type { StopTracing } from './tracing.js';
import type { OpenPorts } from './serve-app.js';
import { describeStartFailure, reportSettings, reportToSystemd, watchStart } from './start-report.js';

export async function serve(stopTracing?: StopTracing): Promise<void> {
  await exitOnFailure(() => start(stopTracing));
}

export async function serveWorker(stopTracing?: StopTracing): Promise<void> {
  await exitOnFailure(async () => {
    const { serveApp } = await import('./serve-app.js');
    const environment = readWorkerEnvironment();
    installLastResort(environment);
    const { answerPrimary } = await import('../foundation/metrics/metrics-server.js');
    if (environment.metricsPort !== undefined) answerPrimary([]);
    const watch = watchStart(environment);
    await watch.limit(serveApp(environment, watch, stopTracing));
  });
}

async function exitOnFailure(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    console.error(describeStartFailure(error));
    process.exit(1);
  }
}

async function start(stopTracing?: StopTracing): Promise<void> {
  const given = readSecretFiles(readVariables());
  const isProduction = given.NODE_ENV === 'production';
  const variables = isProduction ? given : ensureSecrets(given);
  const needsDatabase = !isProduction && !variables.DATABASE_URL;
  // Parsed before anything is started, so that an invalid variable or a taken port leaves nothing behind.
  let environment = parseEnvironment(
    needsDatabase ? { ...variables, DATABASE_URL: 'postgresql://embedded' } : variables,
  );
  installLastResort(environment);
  reportSettings(environment, given);
  const { host, metricsHost, port, internalPort, metricsPort } = environment;
  await refuseTakenPort(host, 'PORT', port);
  if (internalPort !== undefined) await refuseTakenPort(host, 'INTERNAL_PORT', internalPort);
  if (metricsPort !== undefined) await refuseTakenPort(metricsHost, 'METRICS_PORT', metricsPort);
  const watch = watchStart(environment);
  const embedded: EmbeddedPostgres | undefined = needsDatabase
    ? await watch.limit(watch.during('the embedded PostgreSQL', () => startEmbeddedDatabase()))
    : undefined;
  if (embedded) environment = { ...environment, databaseUrl: embedded.url() };
  const stopEmbedded = async (): Promise<void> => embedded?.stop();
  let ports: OpenPorts;
  try {
    if (environment.workers === 1) {
      const { serveApp } = await import('./serve-app.js');
      ports = await watch.limit(serveApp(environment, watch, stopTracing, stopEmbedded));
    } else {
      const { servePrimary } = await import('./workers.js');
      const variablesOfWorkers = selectWorkerVariables({ ...variables, DATABASE_URL: environment.databaseUrl });
      const file = fileURLToPath(new URL('./worker.js', import.meta.url));
      const servers = internalPort === undefined ? 1 : 2;
      const program = { file, servers, variables: variablesOfWorkers };
      ports = await watch.limit(servePrimary(environment, program, watch, stopEmbedded));
    }
    if (variables.NOTIFY_SOCKET) reportToSystemd(environment);
    if (environment.nodeEnv === 'development') reportToDeveloper({ ...environment, ...ports }, embedded?.folder);
  } catch (error) {
    await embedded?.stop();
    throw error;
  }
}

/** A parent with a channel, `platform-auth dev`, gets the ports and greets the developer; its end stops the service. */
function reportToDeveloper(environment: Environment, embeddedFolder: string | undefined): void {
  if (!process.send) {
    console.log(formatWelcome(environment, embeddedFolder));
    return;
  }
  const { port, internalPort } = environment;
  process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'));
  process.send({ port, internalPort });
}

/** Without this check, Node.js would report a taken port only after everything else has started. */
async function refuseTakenPort(host: string, variable: string, port: number): Promise<void> {
  await probePort(port, host).catch((error: unknown) => {
    throw Object.assign(error as Error, { variable });
  });
}
