/** Upper bounds in seconds: a validation takes about one millisecond, a login a few hundred. */
export const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5] as const;

export interface Durations {
  readonly route: string;
  readonly method: string;
  /** One count a bucket, not cumulative; what took longer than the last is in `count` alone. */
  readonly buckets: Float64Array;
  sum: number;
  count: number;
}

/** How long requests took, by route and method, in plain numbers. */
export class DurationsByRoute {
  private readonly byRoute = new Map<string, Durations[]>();

  observe(route: string, method: string, seconds: number): void {
    let ofRoute = this.byRoute.get(route);
    if (!ofRoute) this.byRoute.set(route, (ofRoute = []));
    let durations = ofRoute.find((candidate) => candidate.method === method);
    if (!durations) {
      durations = { route, method, buckets: new Float64Array(BUCKETS.length), sum: 0, count: 0 };
      ofRoute.push(durations);
    }
    durations.count += 1;
    durations.sum += seconds;
    for (let i = 0; i < BUCKETS.length; i += 1) {
      if (seconds > (BUCKETS[i] ?? 0)) continue;
      durations.buckets[i] = (durations.buckets[i] ?? 0) + 1;
      return;
    }
  }

  all(): Durations[] {
    return [...this.byRoute.values()].flat();
  }
}
