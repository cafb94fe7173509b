import { ClockCheck } from './clock-check.js';
import { Misconfigurations, UnexpectedErrors } from './events.js';
import type { Settings } from './options.js';
import type { Runtime } from './runtime.js';
import { ServiceName } from './service-name.js';
import { TokenSettings } from './token-settings.js';

/** What answers tell about the configuration, and where mistakes are reported. */
export interface Checks {
  readonly clock: ClockCheck;
  readonly serviceName: ServiceName;
  readonly tokenSettings: TokenSettings;
  readonly misconfigurations: Misconfigurations;
  readonly unexpectedErrors: UnexpectedErrors;
}

export function createChecks(
  { serviceName, logger, ownKey, secretKey, secretKeyPrevious }: Settings,
  runtime: Runtime,
): Checks {
  const misconfigurations = new Misconfigurations(logger);
  const readSecrets = () => [ownKey.key, secretKey, secretKeyPrevious].filter((secret) => secret !== undefined);
  return {
    clock: new ClockCheck(runtime.clocks, misconfigurations),
    serviceName: new ServiceName(serviceName, runtime, misconfigurations),
    tokenSettings: new TokenSettings(runtime, misconfigurations),
    misconfigurations,
    unexpectedErrors: new UnexpectedErrors(logger, readSecrets),
  };
}
