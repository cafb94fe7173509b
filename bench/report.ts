import { formatFigure, printTable } from '../tools/table.js';
import type { MeasureOptions, Results } from './measure.js';
import { NAMES } from './names.js';
import type { ScaleResult } from './scale.js';
import type { JudgedTarget } from './targets.js';
import type { WorkersResult } from './workers.js';

export interface Report {
  readonly results: Results;
  readonly targets: readonly JudgedTarget[];
  /** Why verifiers in Python were not measured. */
  readonly withoutPython: string | undefined;
  readonly workers: readonly WorkersResult[] | undefined;
  readonly scale: ScaleResult | undefined;
}

export function printJson({ results, targets, withoutPython, workers, scale }: Report): void {
  const everything = {
    node: process.version,
    results: Object.fromEntries(results),
    targets,
    withoutPython,
    workers,
    scale,
  };
  console.log(JSON.stringify(everything, undefined, 2));
}

export function printReport(report: Report, { rounds, seconds }: MeasureOptions): void {
  const { results, targets, withoutPython, workers, scale } = report;
  if (results.size > 0) {
    console.log(`\nNode ${process.version}, one process, ${rounds} rounds of ${seconds} s, medians\n`);
    printResults(results);
    console.log('\nTargets\n');
    printTargets(targets);
    if (withoutPython !== undefined) console.log(`\nVerifiers in Python were not measured: ${withoutPython}`);
  }
  if (workers) printWorkers(workers);
  if (scale) printScale(scale);
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
