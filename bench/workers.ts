import { chooseValidation } from './contestants.js';
import { createHttpContestant } from './loads.js';
import { measure, type Contestant, type MeasureOptions, type Sample } from './measure.js';
import type { Known } from './population.js';
import type { Testbed } from './testbed.js';

const NUMBERS = [1, 2, 4];

export type WorkersResult = Sample & { readonly name: string };

/** Measures validate-node by the number of processes. Two threads of load keep several processes busy. */
export async function measureWorkers(
  testbed: Testbed,
  known: Known,
  options: MeasureOptions,
): Promise<WorkersResult[]> {
  const contestants: Contestant[] = [];
  for (const number of NUMBERS) {
    const target = await testbed.startService({ WORKERS: String(number) });
    contestants.push(
      createHttpContestant({ name: String(number), target, request: chooseValidation(known), workers: 2 }),
    );
  }
  return [...(await measure(contestants, options))].map(([name, result]) => ({ name, ...result }));
}
