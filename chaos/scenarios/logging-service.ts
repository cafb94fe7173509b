import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { claimPort } from '../../tools/claim-port.js';
import type { Scenario, Stage } from '../stage.js';

const MISBEHAVIOURS: readonly RequestListener[] = [
  // Never answers.
  () => undefined,
  (_request, response) => response.writeHead(500).end(),
  (_request, response) => response.writeHead(307, { Location: '/elsewhere' }).end(),
  (request) => request.socket.destroy(),
];

/** Faults of the logging service must not affect callers. */
export const loggingService: Scenario = {
  name: 'logging-service',
  title: 'the logging service hangs, then answers 500, redirects, hangs up',
  bounds: { errors: [], silenceMs: 2_000, slowestMs: 2_000 },
  async run(stage) {
    const logging = await LoggingService.start(stage);
    await stage.begin({ variables: { LOGGING_SERVICE_URL: logging.url } });
    await stage.rest();
    stage.expect(logging.paths.has('/logs'), 'no log line was delivered before the fault');
    for (const misbehave of MISBEHAVIOURS) {
      logging.respond = misbehave;
      await stage.rest();
    }
    stage.expect(logging.paths.size === 1, `a redirect was followed: ${[...logging.paths].join(', ')}`);
    for (const [index, replica] of stage.world.replicas.entries()) {
      const warnings = replica.countInLog('logging_service_unusable');
      stage.expect(warnings === 1, `replica ${index + 1} warned ${warnings} times for one outage`);
    }
  },
};

/** Accepts everything until the scenario changes it. */
class LoggingService {
  /** The paths of all requests. */
  readonly paths = new Set<string | undefined>();
  respond: RequestListener = (_request, response) => response.writeHead(204).end();

  private constructor(readonly url: string) {}

  static async start({ world: { cleanup } }: Stage): Promise<LoggingService> {
    const port = await claimPort();
    const service = new LoggingService(`http://127.0.0.1:${port}/logs`);
    const server = createServer((request, response) => {
      service.paths.add(request.url);
      request.resume();
      service.respond(request, response);
    }).listen(port, '127.0.0.1');
    await once(server, 'listening');
    cleanup.defer(() => {
      server.close();
      server.closeAllConnections();
    });
    return service;
  }
}
