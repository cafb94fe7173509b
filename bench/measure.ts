export const CONNECTIONS = 64;
const WARM_UP_SECONDS = 2;

/**
 * Times are in milliseconds, `cpu` in microseconds for one answer, `core` in percent of one core. `beside` to `delayMs`
 * belong to the login flood, and the shares in percent to the flood of a verifier.
 */
const FIGURES = [
  'throughput',
  'p50',
  'p99',
  'cpu',
  'core',
  'beside',
  'quietP99',
  'floodP99',
  'p99Ratio',
  'delayMs',
  'newShare',
  'knownShare',
] as const;

export type Figure = (typeof FIGURES)[number];

/** The figures of one contestant; NaN where the machine does not provide a figure. */
export type Sample = Readonly<Partial<Record<Figure, number>>>;
export type Results = ReadonlyMap<string, Sample>;

/** Puts load on a contestant for a number of seconds. */
export type Load = (seconds: number) => Promise<Sample>;

export interface Contestant {
  readonly name: string;
  readonly load: Load;
}

export interface MeasureOptions {
  readonly seconds: number;
  readonly rounds: number;
}

/**
 * Measures every contestant in turn, round after round, so that a machine that slows down affects all alike.
 * @returns medians over the rounds; the maximum for delays
 */
export async function measure(
  contestants: readonly Contestant[],
  { seconds, rounds }: MeasureOptions,
): Promise<Results> {
  const measured = contestants.map((contestant) => {
    const samples: Sample[] = [];
    return { ...contestant, samples };
  });
  for (const { name, load } of measured) {
    process.stderr.write(`warm-up: ${name}\n`);
    await load(WARM_UP_SECONDS);
  }
  for (let round = 1; round <= rounds; round += 1) {
    for (const { name, load, samples } of measured) {
      process.stderr.write(`round ${round}/${rounds}: ${name}\n`);
      samples.push(await load(seconds));
    }
  }
  return new Map(measured.map(({ name, samples }) => [name, summarise(samples)]));
}

function summarise(samples: readonly Sample[]): Sample {
  const summary: Partial<Record<Figure, number>> = {};
  for (const figure of FIGURES) {
    const sorted = samples.flatMap((sample) => sample[figure] ?? []).sort((a, b) => a - b);
    const chosen = figure === 'delayMs' ? sorted.at(-1) : sorted[Math.floor(sorted.length / 2)];
    if (chosen !== undefined) summary[figure] = chosen;
  }
  return summary;
}
