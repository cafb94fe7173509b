const WARM_UP_SECONDS = 2;

/**
 * Measures every contestant in turn, round after round, so that a machine that slows down slows all of them down.
 * @returns {Promise<Map<string, Record<string, number>>>} medians over the rounds; of a delay the worst
 */
export async function measure(contestants, { seconds, rounds }) {
  const samples = new Map(contestants.map(({ name }) => [name, []]));
  for (const { name, load } of contestants) {
    process.stderr.write(`warm-up: ${name}\n`);
    await load(WARM_UP_SECONDS);
  }
  for (let round = 1; round <= rounds; round += 1) {
    for (const { name, load } of contestants) {
      process.stderr.write(`round ${round}/${rounds}: ${name}\n`);
      samples.get(name).push(await load(seconds));
    }
  }
  return new Map([...samples].map(([name, all]) => [name, summary(all)]));
}

function summary(samples) {
  const keys = Object.keys(samples[0] ?? {});
  return Object.fromEntries(
    keys.map((key) => {
      const sorted = samples.map((sample) => sample[key]).sort((a, b) => a - b);
      return [key, key === 'delayMs' ? sorted.at(-1) : sorted[Math.floor(sorted.length / 2)]];
    }),
  );
}
