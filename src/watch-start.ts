import { StartWatch } from './common/start-watch.js';
import type { Environment } from './config/environment.js';
import { Log } from './logging/log.js';

/** The watch over the start of a process. Its lines go to the console: a start that fails waits for no delivery. */
export function watchStart(environment: Environment): StartWatch {
  const log = new Log({ ...environment, loggingServiceUrl: undefined });
  return new StartWatch(environment.startTimeoutSeconds * 1_000, ({ step, seconds, reason }) =>
    log.warn('start_waits', { waiting_for: step, waited_seconds: seconds, reason }),
  );
}
