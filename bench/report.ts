import { formatFigure, printTable } from '../tools/table.js';
import type { MeasureOptions, Results } from './measure.js';
import { NAMES } from './names.js';
import type { ScaleResult } from './scale.js';
import type { JudgedTarget } from './targets.js';
import type { WorkersResult } from './workers.js';

/** Explains the lines and columns of the tables. */
const LEGEND: readonly (readonly [string, string])[] = [
  [
    'bare node:http',
    'answers a constant. The load generator costs more than its answer, so its line is the limit of the load',
  ],
  [
    'stock',
    'a Nest route with passport-headerapikey and nestjs-pino as their documentation says, with nothing behind it',
  ],
  ['its query through pg', 'the prepared read of one row that a validation needs, one statement for each request'],
  [
    'its statements and signatures alone',
    'a process that sends only these statements and signs, 64 at once, without HTTP',
  ],
  ['raw bcrypt', 'one comparison after the other on as many threads as cores, at the low priority of the service'],
  ['login', 'twice as many callers as cores; then again beside a stream of validations, 16 callers that rest 20 ms'],
  ['delay of the event loop', "prom-client's, from /metrics: how late a timer of 10 ms came at worst"],
  ['a key, a token', 'a process that only verifies the keys of 64 nodes, with six headers each, and polls'],
  ['asked each time', 'the same verifier, 64 at once, before a service without a lease'],
  ['polls', 'the CPU of the service while verifiers poll each third of the lease, less what it takes without them'],
  ['eviction', '25 nodes a second are deleted in the database; a verifier is asked each millisecond until it refuses'],
  ['CPU µs', 'user and system time of the process, with all its threads, for one answer'],
  ['by CPU', 'the ratio of CPU per answer, which other work on the machine disturbs less than requests per second'],
];

interface Report {
  readonly results: Results;
  readonly targets: readonly JudgedTarget[];
  /** Why verifiers in Python were not measured. */
  readonly withoutPython: string | undefined;
  /** Why the verifier in Go was not measured. */
  readonly withoutGo: string | undefined;
  readonly workers: readonly WorkersResult[] | undefined;
  readonly scale: ScaleResult | undefined;
}

export function printJson({ results, targets, withoutPython, withoutGo, workers, scale }: Report): void {
  const everything = {
    node: process.version,
    results: Object.fromEntries(results),
    targets,
    withoutPython,
    withoutGo,
    workers,
    scale,
  };
  console.log(JSON.stringify(everything, undefined, 2));
}

export function printReport(report: Report, { rounds, seconds }: MeasureOptions): void {
  const { results, targets, withoutPython, withoutGo, workers, scale } = report;
  if (results.size > 0) {
    console.log(`\nNode ${process.version}, one process, ${rounds} rounds of ${seconds} s, medians\n`);
    printResults(results);
    console.log('\nTargets\n');
    printTargets(targets);
    if (withoutPython !== undefined) console.log(`\nVerifiers in Python were not measured: ${withoutPython}`);
    if (withoutGo !== undefined) console.log(`\nThe verifier in Go was not measured: ${withoutGo}`);
    printLegend();
  }
  if (workers) printWorkers(workers);
  if (scale) printScale(scale);
}

function printLegend(): void {
  console.log('\nAll run on loopback in turn, round after round, with 64 keep-alive connections and one PostgreSQL.\n');
  for (const [name, meaning] of LEGEND) console.log(`- ${name}: ${meaning}.`);
}

function printResults(results: Results): void {
  const [bare, stock] = [results.get(NAMES.http) ?? {}, results.get(NAMES.stock) ?? {}];
  printTable(
    ['what', 'requests/s', 'p50 ms', 'p99 ms', 'CPU µs', '× node:http', '× node:http, by CPU', '× stock'],
    [...results].map(([name, { throughput = NaN, p50, p99, cpu = NaN }]) => [
      name,
      formatFigure(throughput, throughput < 1_000 ? 1 : 0),
      formatFigure(p50, 1),
      formatFigure(p99, 1),
      formatFigure(cpu),
      formatFigure(throughput / (bare.throughput ?? NaN), 3),
      formatFigure((bare.cpu ?? NaN) / cpu, 3),
      formatFigure(throughput / (stock.throughput ?? NaN), 2),
    ]),
  );
  const login = results.get(NAMES.login);
  printCores(results);
  if (!login) return;
  const { beside, quietP99, floodP99 } = login;
  const streams = `p99 ${formatFigure(quietP99, 2)} ms before the flood and ${formatFigure(floodP99, 2)} ms during it`;
  console.log(
    `\nA stream of validations beside the logins: ${streams}; ${formatFigure(beside, 1)} logins/s beside it.`,
  );
}

function printCores(results: Results): void {
  for (const [name, { core, throughput }] of results) {
    if (core === undefined) continue;
    console.log(`\n${name}: ${formatFigure(throughput)} polls/s, ${formatFigure(core, 1)} % of a core.`);
  }
}

function printTargets(targets: readonly JudgedTarget[]): void {
  printTable(
    ['target', 'wanted', 'figure', ''],
    targets.map(({ name, unit, bound, figure, isHeld }) => [
      `${name}: ${unit}`,
      'least' in bound ? `≥ ${bound.least}` : `≤ ${bound.most}`,
      formatFigure(figure, 2),
      verdictOf(isHeld),
    ]),
  );
}

function printWorkers(workers: readonly WorkersResult[]): void {
  console.log('\nvalidate-node by WORKERS, two load generators\n');
  const [one] = workers;
  const rows = workers.map(({ name, throughput, p99, cpu }) => [
    name,
    formatFigure(throughput),
    formatFigure(p99, 1),
    formatFigure(cpu),
    formatFigure((throughput ?? NaN) / (one?.throughput ?? NaN), 2),
  ]);
  printTable(['workers', 'requests/s', 'p99 ms', 'CPU µs', '× one'], rows);
}

function printScale({ routes, plans }: ScaleResult): void {
  console.log('\nThe same at 1,000 and at 1,000,000 rows a table\n');
  printTable(
    ['what', 'CPU µs, few', 'CPU µs, many', 'many ÷ few', 'requests/s, few', 'requests/s, many', 'few ÷ many', '≤ 1.2'],
    routes.map(({ name, few, many, cost, slowdown, isHeld }) => [
      name,
      formatFigure(few.cpu),
      formatFigure(many.cpu),
      formatFigure(cost, 2),
      formatFigure(few.throughput),
      formatFigure(many.throughput),
      formatFigure(slowdown, 2),
      verdictOf(isHeld),
    ]),
  );
  for (const { name, plan } of plans) console.log(`\n${name}\n${plan.map((line) => `  ${line}`).join('\n')}`);
}

function verdictOf(isHeld: boolean): string {
  return isHeld ? 'held' : 'missed';
}
