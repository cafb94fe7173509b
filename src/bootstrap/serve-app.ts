import { once } from 'node:events';
import type { StartWatch } from '../common/start-watch.js';
import type { Environment } from '../config/environment.js';
import { createApp, createInternalServer } from './create-app.js';
import { stopGracefully } from './graceful-stop.js';
import { Log } from '../logging/log.js';
import type { StopTracing } from './tracing.js';

/** Part of the time between the delay and the deadline of a stop in which traces are delivered: a quarter. */
const TRACING_DIVISOR = 4;

/**
 * Serves requests in this process, until a signal ends it.
 * @param afterClose stops what the application used
 */
export async function serveApp(
  environment: Environment,
  watch: StartWatch,
  stopTracing?: StopTracing,
  afterClose?: () => Promise<void>,
): Promise<void> {
  const app = await createApp(environment, watch);
  const { shutdownDelayMs, shutdownDeadlineMs, port, internalPort, host } = environment;
  const internal = internalPort === undefined ? undefined : createInternalServer(app);
  stopGracefully(app, internal, async () => {
    await stopTracing?.((shutdownDeadlineMs - shutdownDelayMs) / TRACING_DIVISOR);
    await afterClose?.();
  });
  await watch.during('the port', async () => {
    if (internal) await once(internal.listen(internalPort, host), 'listening');
    await app.listen(port, host);
  });
  app.get(Log).info('listening', { host, port, internal_port: internalPort });
}
