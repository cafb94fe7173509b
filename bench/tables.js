import { NAMES } from './contestants.js';

/** Prints rows as a Markdown table; the first column is text. */
export function printTable(head, rows) {
  console.log(`| ${head.join(' | ')} |`);
  console.log(`| ${head.map((_, index) => (index === 0 ? '---' : '---:')).join(' | ')} |`);
  for (const row of rows) console.log(`| ${row.join(' | ')} |`);
}

/** A figure with so many digits, or a dash where there is none. */
export function figure(value, digits = 0) {
  return Number.isFinite(value) ? value.toFixed(digits) : '–';
}

export function printResults(results) {
  const [bare, stock] = [results.get(NAMES.http), results.get(NAMES.stock)];
  printTable(
    ['what', 'requests/s', 'p50 ms', 'p99 ms', 'CPU µs', '× node:http', '× node:http, by CPU', '× stock'],
    [...results].map(([name, { throughput, p50, p99, cpu }]) => [
      name,
      figure(throughput, throughput < 1_000 ? 1 : 0),
      figure(p50, 1),
      figure(p99, 1),
      figure(cpu, 0),
      figure(throughput / bare?.throughput, 3),
      figure(bare?.cpu / cpu, 3),
      figure(throughput / stock?.throughput, 2),
    ]),
  );
  const login = results.get(NAMES.login);
  if (!login) return;
  const { beside, quietP99, floodP99 } = login;
  const streams = `p99 ${figure(quietP99, 2)} ms before the flood and ${figure(floodP99, 2)} ms during it`;
  console.log(`\nA stream of validations beside the logins: ${streams}; ${figure(beside, 1)} logins/s beside it.`);
}

export function printTargets(targets) {
  printTable(
    ['target', 'wanted', 'figure', ''],
    targets.map(({ name, unit, bound, figure: value, isHeld }) => [
      `${name}: ${unit}`,
      bound.least === undefined ? `≤ ${bound.most}` : `≥ ${bound.least}`,
      figure(value, 2),
      isHeld ? 'held' : 'missed',
    ]),
  );
}
