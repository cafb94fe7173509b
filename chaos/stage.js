import { audit } from './audit.js';
import { sleep } from './client.js';
import { HOT } from './record.js';
import { World } from './world.js';

const MIN_RIGHT = 5;

/**
 * Runs one scenario with a new database, new replicas and a new load.
 * @returns {Promise<{ scenario, record?, notRun?: string, broken: string[] }>} `broken`: the bounds that did not hold
 */
export async function runScenario(scenario, { seconds, patience }) {
  const notRun = await scenario.whyNot?.();
  if (notRun) return { scenario, notRun, broken: [] };
  const world = await World.withDatabase();
  const broken = [];
  const stage = {
    world,
    seconds,
    quiet: () => sleep(seconds * 1_000),
    healed: () => world.record.healed(),
    /** Checks a bound that only this scenario has. */
    expect: (holds, bound) => {
      if (!holds) broken.push(bound);
    },
  };
  await scenario.prepare?.(stage);
  if (world.replicas.length === 0) await world.startReplicas(scenario.variables);
  await world.startLoad(scenario.load);
  try {
    await scenario.run(stage);
  } finally {
    await world.load.stop();
  }
  const { record } = world;
  await audit(world);
  const judged = scenario.judge ? scenario.judge(record) : brokenBounds(record, scenario.bounds, patience);
  return { scenario, record, broken: [...broken, ...judged] };
}

/** @returns a description of each broken bound */
function brokenBounds(record, { errors, ...times }, patience) {
  const [silenceMs, slowestMs, backMs] = [times.silenceMs, times.slowestMs, times.backMs].map((ms) => ms * patience);
  const broken = [];
  const bound = (holds, words) => holds || broken.push(words);
  bound(record.wrong.length === 0, `${record.wrong.length} wrong verdicts`);
  bound(record.lost.length === 0, `${record.lost.length} lost acknowledged writes`);
  for (const label of record.errors.keys()) {
    bound(errors.includes(label), `${record.countOf(label)} × ${label}, which this fault does not explain`);
  }
  for (const kind of HOT)
    bound(record.rightOf(kind) >= MIN_RIGHT, `${kind}: ${record.rightOf(kind)} right answers in all`);
  const { silence, back } = record;
  bound(
    silence.ms <= silenceMs,
    `${silence.name}: ${Math.round(silence.ms)} ms without a right answer, over ${silenceMs}`,
  );
  const { slowestRequest } = record;
  bound(
    record.slowestMs <= slowestMs,
    `${slowestRequest}: answered after ${Math.round(record.slowestMs)} ms, over ${slowestMs}`,
  );
  if (back && times.backMs !== undefined) {
    bound(
      back.ms <= backMs,
      `${back.name}: right again ${Math.round(back.ms)} ms after the end of the fault, over ${backMs}`,
    );
  }
  return broken;
}
