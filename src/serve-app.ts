import { once } from 'node:events';
import type { StartWatch } from './common/start-watch.js';
import type { Environment } from './config/environment.js';
import { createApp, createInternalServer } from './create-app.js';
import { stopGracefully } from './graceful-stop.js';
import { Log } from './logging/log.js';
import type { StopTracing } from './tracing.js';

/** Most of the time between the stop's delay and its deadline belongs to requests; so much of it to their traces. */
const TRACING_SHARE = 4;

/**
 * Serves in this process, until a signal ends it.
 * @param afterClose what must stop once nothing uses it anymore
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
    await stopTracing?.((shutdownDeadlineMs - shutdownDelayMs) / TRACING_SHARE);
    await afterClose?.();
  });
  await watch.during('the port', async () => {
    if (internal) await once(internal.listen(internalPort, host), 'listening');
    await app.listen(port, host);
  });
  app.get(Log).info('listening', { host, port, internal_port: internalPort });
}
