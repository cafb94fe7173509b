import { printHead, printRow } from '../tools/table.js';
import { findWorst } from './record.js';
import type { Result } from './stage.js';

const TEXT_COLUMNS = ['fault', 'errors by status', 'bounds'];
const COLUMNS = [
  'fault',
  'requests',
  'wrong verdicts',
  'lost acknowledged writes',
  'errors by status',
  'longest time without a right answer (ms)',
  'slowest answer (ms)',
  'right again after (ms)',
  'bounds',
];
const NO_FIGURES = ['', '', '', '', '', '', ''];
const MAX_EXPLAINED = 10;

export function printHeading(): void {
  printHead(COLUMNS, TEXT_COLUMNS);
}

export function printResult(result: Result): void {
  const { name, title } = result.scenario;
  printRow([`${name}: ${title}`, ...figuresOf(result), verdictOf(result)]);
}

/** @returns the broken bounds, and the first wrong verdicts and lost writes */
export function explain({ scenario, record, broken }: Result): string[] {
  if (broken.length === 0) return [];
  const byRoute = [...(record?.errors ?? [])].map(([label, routes]) => {
    return `    ${label}: ${[...routes].map(([route, count]) => `${count} ${route}`).join(', ')}`;
  });
  return [
    `\n${scenario.name}:`,
    ...broken.map((text) => `  ${text}`),
    ...firstOf(record?.wrong ?? []),
    ...firstOf(record?.lost ?? []),
    ...byRoute,
  ];
}

function figuresOf({ record }: Result): (string | number)[] {
  if (!record) return NO_FIGURES;
  const [silence, back] = [findWorst(record.silences), findWorst(record.backs)];
  return [
    record.requests,
    record.wrong.length,
    record.lost.length,
    [...record.errors.keys()].map((label) => `${record.countLabel(label)} × ${label}`).join(', ') || 'none',
    silence ? `${Math.round(silence.ms)} (${silence.name})` : '',
    Math.round(record.slowestMs),
    back ? Math.round(back.ms) : '',
  ];
}

function verdictOf({ notRun, leftOut, broken }: Result): string {
  if (notRun !== undefined) return `not run: ${notRun}`;
  const verdict = broken.length === 0 ? 'held' : '**broken**';
  return leftOut === undefined ? verdict : `${verdict} (${leftOut})`;
}

function firstOf(list: readonly string[]): string[] {
  const lines = list.slice(0, MAX_EXPLAINED).map((text) => `    ${text}`);
  if (list.length > MAX_EXPLAINED) lines.push(`    and ${list.length - MAX_EXPLAINED} more`);
  return lines;
}
