import { NAMES } from './contestants.js';

const isNode20 = Number(process.versions.node.split('.')[0]) < 24;
const STOCK_FACTOR = isNode20 ? 5 : 3;

/** What is wanted of each figure; a comparison is made of two contestants of the same run. */
const TARGETS = [
  ...[NAMES.node, NAMES.app].flatMap((name) => [
    ratio(name, NAMES.http, 'throughput', 'of bare node:http', { least: 0.4 }),
    ratio(name, NAMES.stock, 'throughput', '× the stock route', { least: STOCK_FACTOR }),
    ratio(name, NAMES.stock, 'p99', "of the stock route's p99", { most: 0.2 }),
  ]),
  ratio(NAMES.nodeOff, NAMES.pgHttp, 'throughput', 'of the same query behind node:http', { least: 0.5 }),
  ratio(NAMES.nodeOff, NAMES.pg, 'throughput', 'of the same query through pg alone', { least: 0.5 }),
  ratio(NAMES.users, NAMES.usersAlone, 'cpu', '× the CPU of its statements and signature', { most: 1.5 }),
  ratio(NAMES.refresh, NAMES.refreshAlone, 'cpu', '× the CPU of its statements and signatures', { most: 1.5 }),
  ratio(NAMES.login, NAMES.bcrypt, 'throughput', 'of raw bcrypt', { least: 0.95 }),
  own(NAMES.login, 'p99Ratio', "× a validation stream's quiet p99, during the flood", { most: 3 }),
  own(NAMES.login, 'delayMs', 'ms: the longest delay of the event loop', { most: 20 }),
];

function ratio(name, other, key, unit, bound) {
  const read = (results) => results.get(name)?.[key] / results.get(other)?.[key];
  return { name, unit, bound, read };
}

function own(name, key, unit, bound) {
  return { name, unit, bound, read: (results) => results.get(name)?.[key] };
}

/** @returns the targets whose contestants were measured, each with its figure and whether it was held */
export function judged(results) {
  return TARGETS.map(({ name, unit, bound, read }) => ({ name, unit, bound, figure: read(results) }))
    .filter(({ figure }) => Number.isFinite(figure))
    .map((target) => ({ ...target, isHeld: isWithin(target) }));
}

function isWithin({ figure, bound: { least = -Infinity, most = Infinity } }) {
  return figure >= least && figure <= most;
}
