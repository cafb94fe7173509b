import { StartWatch } from '../common/start-watch.js';
import type { Environment, Variables } from '../config/environment.js';
import { describeIgnoredVariables } from '../config/ignored-variables.js';
import { Log } from '../logging/log.js';

/**
 * Creates the watch over the start. It logs to the console only, so that a failing start need not wait for a delivery.
 */
export function watchStart(environment: Environment): StartWatch {
  const log = new Log({ ...environment, loggingServiceUrl: undefined });
  return new StartWatch(environment.startTimeoutSeconds * 1_000, ({ step, seconds, reason }) =>
    log.warn('start_waits', { waiting_for: step, waited_seconds: seconds, reason }),
  );
}

/** Names the variables that are set and ignored, because they were removed or are misspelt. */
export function warnOfIgnoredVariables(environment: Environment, variables: Variables): void {
  const reason = describeIgnoredVariables(variables);
  const log = new Log({ ...environment, loggingServiceUrl: undefined });
  if (reason !== undefined) log.warn('variables_ignored', { reason });
}
