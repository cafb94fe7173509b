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
 * @param afterClose what must stop once nothing uses it any more
 */
export function stopGracefully(app: NestExpressApplication, afterClose: () => Promise<void>): void {
  let stopping = false;
  const stop = (): void => {
    if (stopping) return;
    stopping = true;
    void drain(app, afterClose);
  };
  for (const signal of SIGNALS) process.on(signal, stop);
}

async function drain(app: NestExpressApplication, afterClose: () => Promise<void>): Promise<void> {
  const { shutdownDelayMs, shutdownDeadlineMs } = app.get(Environment);
  const log = app.get(Log);
  setTimeout(() => {
    fail(log, 'stop_deadline_passed');
  }, shutdownDeadlineMs).unref();
  try {
    log.info('stopping');
    app.get(Readiness).drain();
    const server = app.getHttpServer();
    hangUpAfterAnswers(server);
    await sleep(shutdownDelayMs);
    // The logging service asks this one whether our delivery is genuine: ship while there is an answer.
    await log.flush();
    await closeServer(server, (shutdownDeadlineMs - shutdownDelayMs) / 2);
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
  log.failure(message);
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
 * @param patienceMs after which whoever never finishes asking is cut off
 */
async function closeServer(server: Server, patienceMs: number): Promise<void> {
  const closed = new Promise((resolve) => server.close(resolve));
  // Node.js ends the connections that are idle now, not those that become idle with their next answer.
  const sweep = setInterval(() => server.closeIdleConnections(), SWEEP_MS);
  const cut = setTimeout(() => server.closeAllConnections(), patienceMs);
  await closed;
  clearInterval(sweep);
  clearTimeout(cut);
}
