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
const MAX_EXPLAINED = 10;

export function heading() {
  return `${row(COLUMNS)}\n${row(COLUMNS.map((name) => (name === 'fault' || name.startsWith('errors') || name === 'bounds' ? '---' : '---:')))}`;
}

export function line({ scenario, record, notRun, broken }) {
  const { name, title } = scenario;
  if (notRun) return row([`${name}: ${title}`, '', '', '', '', '', '', '', `not run: ${notRun}`]);
  const verdict = broken.length === 0 ? 'held' : '**broken**';
  if (!record) return row([`${name}: ${title}`, '', '', '', '', '', '', '', verdict]);
  const { silence, back } = record;
  return row([
    `${name}: ${title}`,
    record.requests,
    record.wrong.length,
    record.lost.length,
    [...record.errors.keys()].map((label) => `${record.countOf(label)} × ${label}`).join(', ') || 'none',
    `${Math.round(silence.ms)} (${silence.name})`,
    Math.round(record.slowestMs),
    back ? Math.round(back.ms) : '',
    verdict,
  ]);
}

/** @returns the broken bounds, and the first wrong verdicts and lost writes */
export function explain({ scenario, record, broken }) {
  if (broken.length === 0) return [];
  const few = (list) => [
    ...list.slice(0, MAX_EXPLAINED).map((text) => `    ${text}`),
    ...(list.length > MAX_EXPLAINED ? [`    and ${list.length - MAX_EXPLAINED} more`] : []),
  ];
  const byRoute = [...(record?.errors ?? [])].map(([label, kinds]) => {
    return `    ${label}: ${[...kinds].map(([kind, count]) => `${count} ${kind}`).join(', ')}`;
  });
  return [
    `\n${scenario.name}:`,
    ...broken.map((text) => `  ${text}`),
    ...few(record?.wrong ?? []),
    ...few(record?.lost ?? []),
    ...byRoute,
  ];
}

function row(cells) {
  return `| ${cells.join(' | ')} |`;
}
