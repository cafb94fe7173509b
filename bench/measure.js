import autocannon from 'autocannon';

const WARM_UP_SECONDS = 2;

/**
 * Measures every contestant in turn, round after round, so that a machine that slows down slows all of them down.
 * @returns {Promise<Map<string, { throughput: number, p50: number, p99: number }>>} medians over the rounds
 */
export async function measure(contestants, { seconds, rounds }) {
  const samples = new Map(contestants.map(({ name }) => [name, []]));
  for (const contestant of contestants) await load(contestant, WARM_UP_SECONDS);
  for (let round = 1; round <= rounds; round += 1) {
    for (const contestant of contestants) {
      process.stderr.write(`round ${round}/${rounds}: ${contestant.name}\n`);
      samples.get(contestant.name).push(await load(contestant, seconds));
    }
  }
  return new Map([...samples].map(([name, all]) => [name, medians(all)]));
}

async function load({ name, url, connections = 64, setupClient, prepare, ...request }, duration) {
  await prepare?.();
  const result = await autocannon({ url, connections, duration, setupClient, ...request });
  const bad = result.non2xx + result.errors + result.timeouts;
  if (bad > 0) throw new Error(`${name}: ${bad} answers were not what was measured`);
  return { throughput: result['2xx'] / result.duration, p50: result.latency.p50, p99: result.latency.p99 };
}

function medians(samples) {
  const median = (key) => samples.map((sample) => sample[key]).sort((a, b) => a - b)[Math.floor(samples.length / 2)];
  return { throughput: median('throughput'), p50: median('p50'), p99: median('p99') };
}
