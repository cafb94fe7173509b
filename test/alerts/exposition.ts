/** One series with its value, as a scrape shows it. */
interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: string;
}

/** The samples of one response of `/metrics`, by their series. */
export type Exposition = ReadonlyMap<string, Sample>;

export async function scrape(url: string): Promise<{ text: string; samples: Exposition }> {
  const response = await fetch(url);
  if (response.status !== 200) throw new Error(`${url} answered ${response.status}`);
  const text = await response.text();
  return { text, samples: parseExposition(text) };
}

/** Labels contain words of the service only, so that neither quotes nor braces occur in them. */
function parseExposition(text: string): Exposition {
  const samples = new Map<string, Sample>();
  for (const [, name = '', pairs = '', value = ''] of text.matchAll(/^([a-z_]\w*)(?:\{(.*)\})? (\S+)$/gm)) {
    const labels = Object.fromEntries(
      [...pairs.matchAll(/(\w+)="([^"]*)"/g)].map(([, label = '', of = '']) => [label, of]),
    );
    samples.set(toSeries(name, labels), { name, labels, value });
  }
  return samples;
}

/** @returns the series as Prometheus writes it, its labels in a fixed order */
export function toSeries(name: string, labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).sort(([one], [other]) => (one < other ? -1 : 1));
  return `${name}{${pairs.map(([label, value]) => `${label}="${value}"`).join(',')}}`;
}
