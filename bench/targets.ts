import type { Figure, Results } from './measure.js';
import { NAMES } from './names.js';

const isNode20 = Number(process.versions.node.split('.')[0]) < 24;
const STOCK_FACTOR = isNode20 ? 5 : 3;
/** The default of REVOCATION_LEASE_MS, with which the service is measured. */
export const LEASE_MS = 500;

type Bound = { readonly least: number } | { readonly most: number };

interface Wanted {
  readonly name: string;
  readonly unit: string;
  readonly bound: Bound;
  readonly read: (results: Results) => number;
}

export interface JudgedTarget {
  readonly name: string;
  readonly unit: string;
  readonly bound: Bound;
  readonly figure: number;
  readonly isHeld: boolean;
}

/** The target of each figure. A ratio compares two contestants of the same run. */
const TARGETS: readonly Wanted[] = [
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
  {
    name: NAMES.exchange,
    unit: '× the CPU of two validate-user and a signature',
    bound: { most: 1 },
    read: (results) =>
      readFigure(results, NAMES.exchange, 'cpu') /
      (2 * readFigure(results, NAMES.validateUser, 'cpu') + readFigure(results, NAMES.signature, 'cpu')),
  },
  own(NAMES.login, 'p99Ratio', "× a validation stream's quiet p99, during the flood", { most: 3 }),
  own(NAMES.login, 'delayMs', 'ms: the longest delay of the event loop', { most: 20 }),
  rate(NAMES.key, NAMES.bareKey, 'of the bare work, by CPU', { least: 0.5 }),
  ratio(NAMES.key, NAMES.askingKey, 'throughput', '× asking each time', { least: 20 }),
  rate(NAMES.token, NAMES.key, 'of the rate of a key, by CPU', { least: 0.4 }),
  rate(NAMES.token, NAMES.es256, '× the verification by jose, by CPU', { least: 20 }),
  rate(NAMES.expressGuarded, NAMES.express, 'of the route without, by CPU', { least: 0.85 }),
  own(NAMES.fewPolls, 'core', '% of a core', { most: 5 }),
  own(NAMES.manyPolls, 'core', '% of a core', { most: 40 }),
  own(NAMES.eviction, 'p99', 'ms, p99; the bound is the lease', { most: LEASE_MS }),
  own(NAMES.flooded, 'newShare', '% of new nodes from another address accepted', { least: 95 }),
  own(NAMES.flooded, 'knownShare', '% of the requests of remembered nodes accepted', { least: 100 }),
  rate(NAMES.pythonKey, NAMES.pythonBareKey, 'of the bare work, by CPU', { least: 0.5 }),
  ratio(NAMES.pythonKey, NAMES.pythonAskingKey, 'throughput', '× asking each time', { least: 20 }),
  rate(NAMES.pythonToken, NAMES.pythonKey, 'of the rate of a key, by CPU', { least: 0.4 }),
  rate(NAMES.pythonToken, NAMES.pythonEs256, '× the verification by PyJWT, by CPU', { least: 20 }),
  rate(NAMES.goKey, NAMES.goBareKey, 'of the bare work, by CPU', { least: 0.6 }),
  rate(NAMES.goKeyCores, NAMES.goBareKeyCores, 'of the bare work, by CPU', { least: 0.6 }),
  ratio(NAMES.goKey, NAMES.goAskingKey, 'throughput', '× asking each time', { least: 20 }),
  rate(NAMES.goToken, NAMES.goEs256, '× the verification by go-jose, by CPU', { least: 20 }),
  rate(NAMES.netHttpGuarded, NAMES.netHttp, 'of the route without, by CPU', { least: 0.85 }),
  rate(NAMES.fastapiGuarded, NAMES.fastapi, 'of the route without, by CPU', { least: 0.8 }),
];

function ratio(name: string, other: string, figure: Figure, unit: string, bound: Bound): Wanted {
  return {
    name,
    unit,
    bound,
    read: (results) => readFigure(results, name, figure) / readFigure(results, other, figure),
  };
}

/** Compares the work of one core, which other programs on the machine disturb less than requests per second. */
function rate(name: string, other: string, unit: string, bound: Bound): Wanted {
  return { name, unit, bound, read: (results) => readFigure(results, other, 'cpu') / readFigure(results, name, 'cpu') };
}

function own(name: string, figure: Figure, unit: string, bound: Bound): Wanted {
  return { name, unit, bound, read: (results) => readFigure(results, name, figure) };
}

function readFigure(results: Results, name: string, figure: Figure): number {
  return results.get(name)?.[figure] ?? NaN;
}

/** @returns the targets of the measured contestants, each with its figure and whether it was met */
export function judgeTargets(results: Results): JudgedTarget[] {
  return TARGETS.map(({ name, unit, bound, read }) => ({ name, unit, bound, figure: read(results) }))
    .filter(({ figure }) => Number.isFinite(figure))
    .map((target) => ({ ...target, isHeld: isWithin(target.figure, target.bound) }));
}

function isWithin(figure: number, bound: Bound): boolean {
  return 'least' in bound ? figure >= bound.least : figure <= bound.most;
}
