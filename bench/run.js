// Throughput and latency of the hot routes beside a bare answer of node:http and beside bare Nest + Express, measured
// in turn in the same run. Loopback only; stops by itself.
import { parseArgs } from 'node:util';
import { startEverything } from './contestants.js';
import { measure } from './measure.js';
import { printScale } from './scale.js';

const USAGE = `Usage: npm run bench -- [--seconds N] [--rounds N] [--scale]

  --seconds N   length of one measurement (default 4)
  --rounds N    how often each is measured, in turn; the median counts (default 3)
  --scale       also compare 1,000 with 1,000,000 rows, and print the query plans
  --help        this text`;

function options() {
  try {
    const { values } = parseArgs({
      options: {
        seconds: { type: 'string', default: '4' },
        rounds: { type: 'string', default: '3' },
        scale: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
    const [seconds, rounds] = [Number(values.seconds), Number(values.rounds)];
    if (!(seconds >= 1 && seconds <= 60 && rounds >= 1 && rounds <= 20))
      throw new Error('1 to 60 seconds, 1 to 20 rounds');
    return { ...values, seconds, rounds };
  } catch (error) {
    console.error(`${error.message}\n\n${USAGE}`);
    process.exit(2);
  }
}

const { seconds, rounds, scale, help } = options();
if (help) {
  console.log(USAGE);
  process.exit(0);
}
const { contestants, database, stop } = await startEverything();
try {
  const results = await measure(contestants, { seconds, rounds });
  const bare = results.get('bare node:http').throughput;
  const nest = results.get('bare Nest + Express').throughput;
  console.log(`\nNode ${process.version}, one process, ${rounds} rounds of ${seconds} s, medians\n`);
  console.log('| what | requests/s | p50 ms | p99 ms | × node:http | × bare Nest |');
  console.log('| --- | ---: | ---: | ---: | ---: | ---: |');
  for (const [name, { throughput, p50, p99 }] of results) {
    const cells = [
      name,
      throughput.toFixed(0),
      p50,
      p99,
      (throughput / bare).toFixed(3),
      (throughput / nest).toFixed(3),
    ];
    console.log(`| ${cells.join(' | ')} |`);
  }
  if (scale) await printScale(database, contestants, { seconds, rounds });
} finally {
  await stop();
}
