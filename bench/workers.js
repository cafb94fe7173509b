import { startService, validateNode } from './contestants.js';
import { overHttp } from './loads.js';
import { measure } from './measure.js';

const NUMBERS = [1, 2, 4];

/** validate-node by the number of processes; the load needs two threads to keep several busy. */
export async function measureWorkers(place, known, options) {
  const contestants = [];
  for (const number of NUMBERS) {
    const service = await startService(place, { WORKERS: String(number) });
    const load = { ...validateNode(service, known), pid: service.pid, workers: 2 };
    contestants.push(overHttp({ name: String(number), ...load }));
  }
  return [...(await measure(contestants, options))].map(([name, result]) => ({ name, ...result }));
}
