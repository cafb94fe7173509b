import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { AppModule } from '../app.module.js';
import type { StartWatch } from '../foundation/common/start-watch.js';
import { RouteTable } from '../foundation/access/route-table.js';
import { Environment } from '../foundation/config/environment.js';
import { LinkedExpressAdapter } from '../foundation/http/linked-express.adapter.js';
import { guardHead } from '../foundation/http/request-guards.js';
import { createRequestLog } from '../foundation/http/request-log.js';
import { createValidationPipe, parseJsonBody, readBytes } from '../foundation/http/validation.js';
import { Log, NestLogger } from '../foundation/logging/log.js';
import { MetricsServer } from '../foundation/metrics/metrics-server.js';
import { ProblemFilter } from '../foundation/problems/problem.filter.js';
import { serveDocs } from './docs/serve-docs.js';
import { onStopSignal } from './stop-signal.js';
import type { StopTracing } from './tracing.js';
import { EventWaits } from '../domain/events/event-waits.js';
import { Readiness } from '../api/health/health-probe.js';
import { RequestMetrics } from '../foundation/metrics/request-metrics.js';
import { RequestTally } from '../foundation/metrics/request-tally.js';

const LEVELS_WITH_VALIDATIONS = new Set(['debug', 'trace']);
const SWEEP_INTERVAL_MS = 50;
/** Traces may take a quarter of the time between the shutdown delay and the deadline. */
const TRACING_DIVISOR = 4;

/** The ports that were opened, where the environment may say 0 for any free port. */
export type OpenPorts = Pick<Environment, 'port' | 'internalPort' | 'metricsPort'>;

/** Serves requests in this process, until a signal ends it. `afterClose` stops what the application used. */
export async function serveApp(
  environment: Environment,
  watch: StartWatch,
  stopTracing?: StopTracing,
  afterClose?: () => Promise<void>,
): Promise<OpenPorts> {
  const app = await createApp(environment, watch);
  const { shutdownDelayMs, shutdownDeadlineMs, port, internalPort, host } = environment;
  const internal = internalPort === undefined ? undefined : createInternalServer(app);
  const servers = [app.getHttpServer(), ...(internal ? [internal] : [])];
  const stopRest = async (): Promise<void> => {
    await stopTracing?.((shutdownDeadlineMs - shutdownDelayMs) / TRACING_DIVISOR);
    await afterClose?.();
  };
  onStopSignal((signal) => {
    app.get(Log).info('stopping', { signal });
    void drain(app, servers, stopRest);
  });
  await watch.during('the port', async () => {
    // The internal port opens first: the primary of a fleet recognises the ports of a worker by their order
    // (workers.ts).
    if (internal) await once(internal.listen(internalPort, host), 'listening');
    await app.listen(port, host);
  });
  const ports = {
    port: readPort(app.getHttpServer()),
    internalPort: internal && readPort(internal),
    metricsPort: app.get(MetricsServer).port,
  };
  app.get(Log).info('listening', { host, port: ports.port, internal_port: ports.internalPort });
  return ports;
}

/** Creates the application: configured and connected to the database, but not listening yet. */
async function createApp(environment: Environment, watch: StartWatch): Promise<NestExpressApplication> {
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
  const tally = app.get(RequestTally);
  const counters = environment.metricsPort === undefined ? [tally] : [tally, app.get(RequestMetrics)];
  app.set('etag', false);
  app.set('trust proxy', environment.trustProxy);
  app.disable('x-powered-by');
  app.use(createRequestLog(log, LEVELS_WITH_VALIDATIONS.has(environment.logLevel), counters));
  app.use(guardHead(environment, app.get(RouteTable)), readBytes, parseJsonBody);
  app.useGlobalPipes(createValidationPipe());
  app.useGlobalFilters(new ProblemFilter(log));
  serveDocs(app);
}

export function createInternalServer(app: NestExpressApplication): Server {
  return (app.getHttpAdapter() as unknown as LinkedExpressAdapter).createInternalServer();
}

function readPort(server: Server): number {
  return (server.address() as AddressInfo).port;
}

/** Becomes unready, waits until the load balancer has noticed, finishes the requests in flight, and closes. */
async function drain(app: NestExpressApplication, servers: Server[], afterClose: () => Promise<void>): Promise<void> {
  const { shutdownDelayMs, shutdownDeadlineMs } = app.get(Environment);
  const log = app.get(Log);
  setTimeout(() => exitWithFailure(log, 'stop_deadline_passed'), shutdownDeadlineMs).unref();
  try {
    app.get(Readiness).drain();
    app.get(EventWaits).stop();
    servers.forEach(closeConnectionsAfterResponse);
    await sleep(shutdownDelayMs);
    // Delivered while this service still answers, because the logging service validates our app key here.
    await log.flush();
    await closeServers(servers, (shutdownDeadlineMs - shutdownDelayMs) / 2);
    await app.close();
    await afterClose();
    log.info('stopped');
    process.exit(0);
  } catch (error) {
    console.error(error);
    exitWithFailure(log, 'stop_failed');
  }
}

function exitWithFailure(log: Log, message: string): never {
  log.abandonDelivery();
  log.error(message);
  process.exit(1);
}

/** Closes each keep-alive connection after its next response, so that the client moves to another replica. */
function closeConnectionsAfterResponse(server: Server): void {
  server.prependListener('request', (_request, response) => void response.setHeader('Connection', 'close'));
}

/** @param timeoutMs after which unfinished requests are cut off */
async function closeServers(servers: Server[], timeoutMs: number): Promise<void> {
  const closed = Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  // `close` ends only the connections that are idle at that moment.
  const sweep = setInterval(() => servers.forEach((server) => server.closeIdleConnections()), SWEEP_INTERVAL_MS);
  const cutoff = setTimeout(() => servers.forEach((server) => server.closeAllConnections()), timeoutMs);
  await closed;
  clearInterval(sweep);
  clearTimeout(cutoff);
}
