import type { Server } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { Environment } from './config/environment.js';
import { Readiness } from './health/readiness.js';
import { Log } from './logging/log.js';

const SIGNALS = ['SIGTERM', 'SIGINT'] as const;
const SWEEP_MS = 50;

/**
 * On SIGTERM or SIGINT: say "unready", wait until the load balancer has noticed, answer what is under way, close.
 * @param internal the server of INTERNAL_PORT, if there is one
 * @param afterClose what must stop once nothing uses it anymore
 */
export function stopGracefully(
  app: NestExpressApplication,
  internal: Server | undefined,
  afterClose: () => Promise<void>,
): void {
  const servers = internal ? [app.getHttpServer(), internal] : [app.getHttpServer()];
  let stopping = false;
  const stop = (): void => {
    if (stopping) return;
    stopping = true;
    void drain(app, servers, afterClose);
  };
  for (const signal of SIGNALS) process.on(signal, stop);
}

async function drain(app: NestExpressApplication, servers: Server[], afterClose: () => Promise<void>): Promise<void> {
  const { shutdownDelayMs, shutdownDeadlineMs } = app.get(Environment);
  const log = app.get(Log);
  setTimeout(() => {
    fail(log, 'stop_deadline_passed');
  }, shutdownDeadlineMs).unref();
  try {
    log.info('stopping');
    app.get(Readiness).drain();
    servers.forEach(hangUpAfterAnswers);
    await sleep(shutdownDelayMs);
    // The logging service asks this one whether our delivery is genuine: ship while there is an answer.
    await log.flush();
    await closeServers(servers, (shutdownDeadlineMs - shutdownDelayMs) / 2);
    await app.close();
    await afterClose();
    log.info('stopped');
    process.exit(0);
  } catch (error) {
    console.error(error);
    fail(log, 'stop_failed');
  }
}

function fail(log: Log, message: string): never {
  log.abandonDelivery();
  log.error(message);
  process.exit(1);
}

/** Every keep-alive connection ends with the answer it waits for, so that its client turns to another replica. */
function hangUpAfterAnswers(server: Server): void {
  server.prependListener('request', (_request, response) => {
    response.setHeader('Connection', 'close');
  });
}

/**
 * Accepts nothing new and waits for the answers that are under way.
 * @param timeoutMs after which a client that never finishes its request is cut off
 */
async function closeServers(servers: Server[], timeoutMs: number): Promise<void> {
  const closed = Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  // Node.js ends the connections that are idle now, not those that become idle with their next answer.
  const sweep = setInterval(() => servers.forEach((server) => server.closeIdleConnections()), SWEEP_MS);
  const cut = setTimeout(() => servers.forEach((server) => server.closeAllConnections()), timeoutMs);
  await closed;
  clearInterval(sweep);
  clearTimeout(cut);
}
