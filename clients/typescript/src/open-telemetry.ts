import { createRequire } from 'node:module';
import type { Counts } from './verdict-counts.js';

const NAME = 'platform_auth.verdicts';

/** The part of `@opentelemetry/api` that counts. */
interface Api {
  readonly metrics: {
    getMeter(name: string): {
      createObservableCounter(
        name: string,
        options: { description: string },
      ): {
        addCallback(
          observe: (result: { observe(value: number, attributes: Record<string, string>): void }) => void,
        ): void;
      };
    };
  };
}

/** Observes the counts with OpenTelemetry, where its API is installed. The service has to start its SDK before. */
export function observeCounts(readCounts: () => Counts): void {
  const api = findApi();
  if (!api) return;
  const meter = api.metrics.getMeter('@platform-auth/verifier');
  const counter = meter.createObservableCounter(NAME, { description: 'Verdicts on credentials, by door' });
  counter.addCallback((result) => {
    for (const [door, counts] of Object.entries(readCounts()))
      for (const [verdict, count] of Object.entries(counts)) result.observe(count, { door, verdict });
  });
}

function findApi(): Api | undefined {
  try {
    // Of the service, not of this package, which does not depend on it. Both are found in the folders above this one.
    return createRequire(import.meta.url)('@opentelemetry/api') as Api;
  } catch {
    return undefined;
  }
}
