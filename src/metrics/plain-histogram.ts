import { Gauge, type Registry } from 'prom-client';
import { BUCKETS, type Durations, type DurationsByRoute } from './durations.js';

type Samples = Awaited<ReturnType<Gauge['get']>>;
type Sample = Samples['values'][number] & { readonly metricName: string };

/**
 * A histogram whose counts are kept elsewhere. prom-client's own takes observations only, at the price of hashing
 * the labels of each; a metric with a `get` of its own shows what has been counted already.
 */
export class PlainHistogram extends Gauge {
  constructor(
    registry: Registry,
    private readonly metricName: string,
    help: string,
    private readonly durations: DurationsByRoute,
  ) {
    super({ name: metricName, help, labelNames: ['route', 'method'], registers: [registry] });
  }

  override async get(): Promise<Samples> {
    const type = 'histogram' as unknown as Samples['type'];
    const values = this.durations.all().flatMap((durations) => samplesOf(this.metricName, durations));
    return { ...(await super.get()), type, values };
  }
}

function samplesOf(name: string, { route, method, buckets, sum, count }: Durations): Sample[] {
  const labels = { route, method };
  let cumulative = 0;
  const samples = BUCKETS.map((bound, index): Sample => {
    cumulative += buckets[index] ?? 0;
    return { metricName: `${name}_bucket`, labels: { le: bound, ...labels }, value: cumulative };
  });
  return [
    ...samples,
    { metricName: `${name}_bucket`, labels: { le: '+Inf', ...labels }, value: count },
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: count },
  ];
}
