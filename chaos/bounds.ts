import { HOT, type LoadRecord } from './record.js';

const MIN_RIGHT = 5;

/** What a fault may cause at most. Wrong verdicts and lost writes are never allowed. */
export interface Bounds {
  /** The labels of responses without a verdict that the fault explains. */
  readonly errors: readonly string[];
  /** The longest time without a correct response. */
  readonly silenceMs: number;
  readonly slowestMs: number;
  /** From the end of the fault to the first correct response of every hot route. */
  readonly backMs?: number;
}

/**
 * @param patience multiplies every bound that is a time
 * @returns a description of each broken bound
 */
export function brokenBounds(record: LoadRecord, bounds: Bounds, patience: number): string[] {
  const { wrong, lost } = record;
  const unexplained = [...record.errors.keys()].filter((label) => !bounds.errors.includes(label));
  const unproven = HOT.filter((route) => record.rightOf(route) < MIN_RIGHT);
  return [
    ...(wrong.length > 0 ? [`${wrong.length} wrong verdicts`] : []),
    ...(lost.length > 0 ? [`${lost.length} lost acknowledged writes`] : []),
    ...unexplained.map((label) => `${record.countOf(label)} × ${label}, which this fault does not explain`),
    ...unproven.map((route) => `${route}: ${record.rightOf(route)} right answers in all`),
    ...brokenTimes(record, bounds, patience),
  ];
}

function brokenTimes(record: LoadRecord, bounds: Bounds, patience: number): string[] {
  const { silence, slowestMs, slowestRequest, back } = record;
  const [maxSilenceMs, maxSlowestMs] = [bounds.silenceMs * patience, bounds.slowestMs * patience];
  const maxBackMs = (bounds.backMs ?? Infinity) * patience;
  const broken: string[] = [];
  if (silence.ms > maxSilenceMs)
    broken.push(`${silence.name}: ${Math.round(silence.ms)} ms without a right answer, over ${maxSilenceMs}`);
  if (slowestMs > maxSlowestMs)
    broken.push(`${slowestRequest}: answered after ${Math.round(slowestMs)} ms, over ${maxSlowestMs}`);
  if (back && back.ms > maxBackMs)
    broken.push(`${back.name}: right again ${Math.round(back.ms)} ms after the end of the fault, over ${maxBackMs}`);
  return broken;
}
