import { HOT, type HotRoute, type LoadRecord, type Unavailable } from './record.js';

const MIN_RIGHT = 5;
/** How soon after the end of any fault verifiers give verdicts again; until then they may answer 503. */
const MAX_VERIFIER_BACK_MS = 2_000;
const MAX_DESCRIBED = 3;
const VERIFIER_UNAVAILABLE = 'verifier 503';
const SERVICE_ROUTES: ReadonlySet<string> = new Set(HOT);

/** The most that a fault may cause. Wrong verdicts and lost writes are never allowed. */
export interface Bounds {
  /** The labels of responses without a verdict that the fault explains. */
  readonly errors: readonly string[];
  /** The longest time without a correct response. */
  readonly silenceMs: number;
  /** The same for verifiers; by default `silenceMs`. */
  readonly verifierSilenceMs?: number;
  readonly slowestMs: number;
  /** The time from the end of the fault to the first correct response of every hot route. */
  readonly backMs?: number;
}

/**
 * @param patience multiplies every bound that is a time
 * @returns a description of each broken bound
 */
export function findBrokenBounds(record: LoadRecord, bounds: Bounds, patience: number): string[] {
  const { wrong, lost } = record;
  const unexplained = [...record.errors.keys()].filter(
    (label) => label !== VERIFIER_UNAVAILABLE && !bounds.errors.includes(label),
  );
  const unproven = record.routeNames.filter((route) => record.countRight(route) < MIN_RIGHT);
  return [
    ...(wrong.length > 0 ? [`${wrong.length} wrong verdicts`] : []),
    ...(lost.length > 0 ? [`${lost.length} lost acknowledged writes`] : []),
    ...unexplained.map((label) => `${record.countLabel(label)} × ${label}, which this fault does not explain`),
    ...unproven.map((route) => `${route}: ${record.countRight(route)} right answers in all`),
    ...findBrokenTimes(record, bounds, patience),
  ];
}

function findBrokenTimes(record: LoadRecord, bounds: Bounds, patience: number): string[] {
  const { slowestMs, slowestRequest } = record;
  const maxSlowestMs = bounds.slowestMs * patience;
  const getMaxSilenceMs = (name: HotRoute): number =>
    patience * ((SERVICE_ROUTES.has(name) ? undefined : bounds.verifierSilenceMs) ?? bounds.silenceMs);
  const maxVerifierBackMs = MAX_VERIFIER_BACK_MS * patience;
  const getMaxBackMs = (name: HotRoute): number =>
    SERVICE_ROUTES.has(name) ? (bounds.backMs ?? Infinity) * patience : maxVerifierBackMs;
  const broken: string[] = [];
  for (const { name, ms } of record.silences) {
    if (ms > getMaxSilenceMs(name))
      broken.push(`${name}: ${Math.round(ms)} ms without a right answer, over ${getMaxSilenceMs(name)}`);
  }
  if (slowestMs > maxSlowestMs)
    broken.push(`${slowestRequest}: answered after ${Math.round(slowestMs)} ms, over ${maxSlowestMs}`);
  for (const { name, ms } of record.backs) {
    if (ms > getMaxBackMs(name))
      broken.push(`${name}: right again ${Math.round(ms)} ms after the end of the fault, over ${getMaxBackMs(name)}`);
  }
  const outside = record.listUnavailableOutside(maxVerifierBackMs);
  if (outside.length > 0)
    broken.push(`${outside.length} × ${VERIFIER_UNAVAILABLE} outside of the fault: ${describe(record, outside)}`);
  return broken;
}

function describe(record: LoadRecord, outside: readonly Unavailable[]): string {
  const texts = outside.map(({ name, startedAt, endedAt }) => {
    return `${name} at ${record.toOffset(startedAt)} ms for ${Math.round(endedAt - startedAt)} ms`;
  });
  return texts.slice(0, MAX_DESCRIBED).join(', ');
}
