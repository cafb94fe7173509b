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

/** Reports the counts to OpenTelemetry, if the service has started its SDK before. */
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

/**
 * Every copy of version 1 of the API registers the SDK in this place, so no copy has to be found, which a bundle cannot
 * do.
 */
function findApi(): Api | undefined {
  const registered = (globalThis as Record<symbol, unknown>)[Symbol.for('opentelemetry.js.api.1')];
  return isApi(registered) ? registered : undefined;
}

function isApi(value: unknown): value is Api {
  return typeof value === 'object' && value !== null && 'metrics' in value;
}
