import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { StartWatch } from '../common/start-watch.js';
import type { Environment } from '../config/environment.js';
import { createApp, createInternalServer } from './create-app.js';
import { stopGracefully } from './graceful-stop.js';
import { Log } from '../logging/log.js';
import { MetricsServer } from '../metrics/metrics-server.js';
import type { StopTracing } from './tracing.js';

/** Part of the time between the delay and the deadline of a stop in which traces are delivered: a quarter. */
const TRACING_DIVISOR = 4;

/** The ports that are open: 0 in the environment means any free port. */
export type OpenPorts = Pick<Environment, 'port' | 'internalPort' | 'metricsPort'>;

/**
 * Serves requests in this process, until a signal ends it.
 * @param afterClose stops what the application used
 */
export async function serveApp(
  environment: Environment,
  watch: StartWatch,
  stopTracing?: StopTracing,
  afterClose?: () => Promise<void>,
): Promise<OpenPorts> {
  const app = await createApp(environment, watch);
  const { shutdownDelayMs, shutdownDeadlineMs, port, internalPort, host } = environment;
  const internal = internalPort === undefined ? undefined : createInternalServer(app);
  stopGracefully(app, internal, async () => {
    await stopTracing?.((shutdownDeadlineMs - shutdownDelayMs) / TRACING_DIVISOR);
    await afterClose?.();
  });
  await watch.during('the port', async () => {
    // In this order: the primary of a fleet tells the ports of a worker by it.
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

function readPort(server: Server): number {
  return (server.address() as AddressInfo).port;
}
