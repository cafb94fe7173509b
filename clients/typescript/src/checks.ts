import type { ClockCheck } from './clock-check.js';
import type { Misconfigurations, UnexpectedErrors } from './events.js';
import type { ServiceName } from './service-name.js';

/** What answers tell about the configuration, and where mistakes are reported. */
export interface Checks {
  readonly clock: ClockCheck;
  readonly serviceName: ServiceName;
  readonly misconfigurations: Misconfigurations;
  readonly unexpectedErrors: UnexpectedErrors;
}
