import { MetricsServer } from '../../src/foundation/metrics/metrics-server.js';
import type { TestApp } from './test-app.js';

/** One response of `/metrics`. */
export class Scrape {
  private readonly samples = new Map<string, number>();
  /** The label names of each series. */
  readonly labels = new Map<string, Set<string>>();

  constructor(readonly text: string) {
    for (const line of text.split('\n')) {
      const [, name, labels = '', value] = /^([a-z_]\w*)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
      if (name === undefined) continue;
      const pairs = [...labels.matchAll(/(\w+)="([^"]*)"/g)].map((match) => [match[1]!, match[2]!] as const);
      const known = this.labels.get(name) ?? new Set();
      pairs.forEach(([label]) => known.add(label));
      this.labels.set(name, known);
      this.samples.set(keyOf(name, Object.fromEntries(pairs)), Number(value));
    }
  }

  /** The names of all metrics, including those without a sample. */
  get names(): string[] {
    return [...this.text.matchAll(/^# TYPE (\S+)/gm)].map((match) => match[1]!);
  }

  /** @returns undefined when the sample is missing */
  value(name: string, labels: Record<string, string> = {}): number | undefined {
    return this.samples.get(keyOf(`platform_auth_${name}`, labels));
  }
}

function keyOf(name: string, labels: Record<string, string>): string {
  return name + JSON.stringify(Object.entries(labels).sort());
}

export function metricsUrl(app: TestApp): string {
  return `http://127.0.0.1:${app.nest.get(MetricsServer).port}/metrics`;
}

export async function scrape(app: TestApp): Promise<Scrape> {
  const answer = await fetch(metricsUrl(app));
  if (answer.status !== 200) throw new Error(`/metrics answered ${answer.status}`);
  return new Scrape(await answer.text());
}
