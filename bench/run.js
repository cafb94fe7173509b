// Throughput, latency and CPU of the hot routes beside what they could cost at best, measured in turn in the same run.
// Loopback only; stops by itself.
import { parseArgs } from 'node:util';
import { contestantsOf, startPlace } from './contestants.js';
import { measure } from './measure.js';
import { measureScale } from './scale.js';
import { figure, printResults, printTable, printTargets } from './tables.js';
import { judged } from './targets.js';
import { measureWorkers } from './workers.js';

const USAGE = `Usage: npm run bench -- [--seconds N] [--rounds N] [--only NAME]... [--workers] [--scale]
                          [--profile FOLDER] [--json]

  --seconds N   length of one measurement (default 4)
  --rounds N    how often each is measured, in turn; the median counts (default 3)
  --only NAME   measure only what has NAME in its name; may be repeated
  --workers     also validate-node with WORKERS=1, 2 and 4
  --scale       also each hot route at 1,000 and at 1,000,000 rows a table, and the query plans
  --profile F   write a CPU profile of each service process into the folder F; best with --only
  --json        print everything as one JSON object
  --help        this text

Timings are printed beside their targets and never fail the run.`;

function options() {
  try {
    const { values } = parseArgs({
      options: {
        seconds: { type: 'string', default: '4' },
        rounds: { type: 'string', default: '3' },
        only: { type: 'string', multiple: true, default: [] },
        workers: { type: 'boolean', default: false },
        scale: { type: 'boolean', default: false },
        profile: { type: 'string' },
        json: { type: 'boolean', default: false },
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

const given = options();
if (given.help) {
  console.log(USAGE);
  process.exit(0);
}
const isWanted = (name) => given.only.length === 0 || given.only.some((part) => name.includes(part));
const place = await startPlace(given.profile);
// An interruption leaves nothing running either.
for (const signal of ['SIGINT', 'SIGTERM'])
  process.once(signal, () => void place.stop().finally(() => process.exit(1)));
try {
  const { contestants, known } = await contestantsOf(place, isWanted);
  const results = await measure(contestants, given);
  const targets = judged(results);
  const workers = given.workers ? await measureWorkers(place, known, given) : undefined;
  const scale = given.scale ? await measureScale(place, given) : undefined;
  if (given.json) print({ node: process.version, results: Object.fromEntries(results), targets, workers, scale });
  else printAll(results, targets, workers, scale);
} finally {
  await place.stop();
}

function print(everything) {
  console.log(JSON.stringify(everything, undefined, 2));
}

function printAll(results, targets, workers, scale) {
  if (results.size > 0) printMain(results, targets);
  if (workers) printWorkers(workers);
  if (scale) printScale(scale);
}

function printMain(results, targets) {
  console.log(`\nNode ${process.version}, one process, ${given.rounds} rounds of ${given.seconds} s, medians\n`);
  printResults(results);
  console.log('\nTargets\n');
  printTargets(targets);
}

function printWorkers(workers) {
  console.log('\nvalidate-node by WORKERS, two load generators\n');
  const rows = workers.map(({ name, throughput, p99, cpu }) => [
    name,
    figure(throughput),
    figure(p99, 1),
    figure(cpu),
    figure(throughput / workers[0].throughput, 2),
  ]);
  printTable(['workers', 'requests/s', 'p99 ms', 'CPU µs', '× one'], rows);
}

function printScale(scale) {
  console.log('\nThe same at 1,000 and at 1,000,000 rows a table\n');
  printTable(
    ['what', 'CPU µs, few', 'CPU µs, many', 'many ÷ few', 'requests/s, few', 'requests/s, many', 'few ÷ many', '≤ 1.2'],
    scale.routes.map(({ name, few, many, cost, slowdown, isHeld }) => [
      name,
      figure(few.cpu),
      figure(many.cpu),
      figure(cost, 2),
      figure(few.throughput),
      figure(many.throughput),
      figure(slowdown, 2),
      isHeld ? 'held' : 'missed',
    ]),
  );
  for (const { name, plan } of scale.plans) console.log(`\n${name}\n${plan.map((line) => `  ${line}`).join('\n')}`);
}
