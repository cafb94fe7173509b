import fc from 'fast-check';
import {
  createFocusedHistories,
  createScenes,
  LEASE_MS,
  recordedHistories,
  type Histories,
  type Step,
} from './histories.js';
import {
  CLOCKS,
  CRASHES,
  DELEGATIONS,
  DISABLED_USERS,
  FAILOVERS,
  MEMBERS,
  ONWARD_CALLS,
  OVERLAPS,
  PRUNES,
  STALE_REPLICAS,
} from './mistakes.js';
import { RecordedWorld } from './recorded-world.js';
import { GRACE_MS } from './replica.js';
import { World, type Setting } from './world.js';

const LEASED: Setting = { graceMs: 0, leasesMs: [LEASE_MS, LEASE_MS] };
const SETTINGS: readonly Setting[] = [
  LEASED,
  { graceMs: GRACE_MS, leasesMs: LEASED.leasesMs },
  { graceMs: 0, leasesMs: [LEASE_MS, LEASE_MS / 3] },
  { graceMs: 0, leasesMs: LEASED.leasesMs, olderReplica: 1 },
];

/** A replica without a lease announces when a verifier asks. The recorded one is not the only verifier. */
const ONE_UNLEASED: Setting = { graceMs: 0, leasesMs: [LEASE_MS, 0], isAskedByOthers: true };
const UNLEASED: Setting = { graceMs: 0, leasesMs: [0, 0], isAskedByOthers: true };

const PURGES = createFocusedHistories({ present: 12, end: 4, purge: 4, abort: 2, 'cut verifier': 4 });
const CUTS = createFocusedHistories({ present: 12, end: 6, 'cut verifier': 4 });
const EXPIRING_PAIRS = createFocusedHistories({ 'present delegated': 14, route: 1 });
const OVERLAPPING_ENDS = createFocusedHistories({ present: 10, end: 5, disable: 2 });
const UNLEASED_REPLICAS = createFocusedHistories({ present: 12, end: 4, route: 2, 'cut verifier': 1 });
const CLOCKS_AND_CUTS = createFocusedHistories({
  present: 12,
  end: 2,
  jump: 1,
  'suspend verifier': 1,
  'cut verifier': 2,
});
/** The verifier has polled. */
const STARTED = new Array<Partial<Step>>(4).fill({ act: 'abort', afterMs: 110, outMs: 5, backMs: 5 });
/** A verifier is cut off after the slow answer to a poll; a revocation commits while that answer is on its way. */
const SLOW_POLLS = createScenes(
  [
    ...STARTED,
    { act: 'present', outMs: 5, backMs: 5 },
    { act: 'abort', outMs: 5, backMs: 400 },
    { act: 'end', afterMs: 130, outMs: 5, holdMs: 0, backMs: 5 },
    { act: 'abort', afterMs: 10, outMs: 5, backMs: 400 },
    { act: 'cut verifier', afterMs: 420 },
  ],
  { present: 1 },
);
/** A user is disabled while the answer about a session is on its way, and a poll is faster. */
const SLOW_ANSWERS = createScenes(
  [
    ...STARTED,
    { act: 'present', credential: 2, outMs: 5, backMs: 200 },
    { act: 'disable', afterMs: 20, outMs: 5, holdMs: 0, backMs: 5 },
    ...new Array<Partial<Step>>(20).fill({ act: 'present', credential: 2 }),
  ],
  { present: 1 },
);

interface Family {
  readonly family: string;
  readonly where: Histories;
  /** The numbers of the recorded worlds. */
  readonly picked: readonly number[];
  /** Longer histories find hardly more, unless a credential expires late. */
  readonly maxSteps?: number;
  readonly settings?: readonly Setting[];
}

const SEED = 1;
const MAX_STEPS = 55;
const range = (count: number): number[] => [...new Array(count).keys()];

/** At least two worlds find each mistake of a verifier or its service, under each of five seeds of the jitter of polls. */
const FAMILIES: readonly Family[] = [
  { family: 'all', where: recordedHistories, picked: [...range(20), 31, 43, 53, 76, 89, 101, 127] },
  { family: 'crashes', where: CRASHES, picked: [...range(8), 29, 46, 78, 80, 85, 94, 108, 112, 366, 454, 465] },
  { family: 'failovers', where: FAILOVERS, picked: [...range(8), 30, 105] },
  { family: 'stale replicas', where: STALE_REPLICAS, picked: [...range(8), 107, 136] },
  { family: 'prunes', where: PRUNES, picked: [...range(8), 12, 21, 57, 78, 84] },
  { family: 'disabled users', where: DISABLED_USERS, picked: range(10) },
  { family: 'clocks', where: CLOCKS, picked: [...range(6), 7, 21, 22, 24, 26, 44, 97], maxSteps: 100 },
  { family: 'clocks and cuts', where: CLOCKS_AND_CUTS, picked: [16, 24, 41, 141, 187, 262] },
  { family: 'slow polls', where: SLOW_POLLS, picked: [2, 4, 5, 6] },
  { family: 'slow answers', where: SLOW_ANSWERS, picked: [0, 2, 3, 7] },
  { family: 'overlaps', where: OVERLAPS, picked: [...range(8), 20, 25] },
  {
    family: 'overlapping ends',
    where: OVERLAPPING_ENDS,
    picked: [...range(6), 44, 62, 95, 141, 151, 170, 175, 192, 202, 203, 232, 304, 454],
  },
  { family: 'purges', where: PURGES, picked: [...range(8), 28, 82, 90, 246] },
  { family: 'cuts', where: CUTS, picked: [...range(8), 14, 38, 58] },
  { family: 'members', where: MEMBERS, picked: [...range(12), 23, 47] },
  { family: 'delegations', where: DELEGATIONS, picked: [...range(10), 59, 77, 90, 240, 368, 370] },
  { family: 'expiring pairs', where: EXPIRING_PAIRS, picked: [...range(3), 4, 5, 7, 9, 18], maxSteps: 100 },
  {
    family: 'one unleased',
    where: UNLEASED_REPLICAS,
    picked: [...range(3), 4, 7, 16, 29, 30, 36, 37],
    settings: [ONE_UNLEASED],
  },
  { family: 'unleased', where: UNLEASED_REPLICAS, picked: [...range(3), 4, 21, 24, 30, 44], settings: [UNLEASED] },
  { family: 'onward calls', where: ONWARD_CALLS, picked: range(10) },
];

/** @returns a line for each world of clients/conformance/worlds.jsonl */
export async function recordWorlds(): Promise<string> {
  const lines: string[] = [];
  for (const { family, where, picked, maxSteps = MAX_STEPS, settings = SETTINGS } of FAMILIES) {
    const histories = fc.sample(where, { seed: SEED, numRuns: Math.max(...picked) + 1 });
    for (const index of picked) {
      const history = histories[index]!.slice(0, maxSteps);
      const setting = settings[index % settings.length]!;
      const world = new RecordedWorld(setting);
      const unwaited = new World('no wait', setting);
      const unwaitedRepeats = new World('repeated revocation does not wait', setting);
      const variants = [unwaited, unwaitedRepeats];
      if (setting.leasesMs.includes(0)) variants.push(new World('nothing announced without a lease', setting));
      for (const one of [world, ...variants]) await one.run(history);
      if (world.violations.length > 0) throw new Error(world.violations.join());
      const recording = world.record(variants);
      lines.push(`${JSON.stringify({ world: `${family} ${index}`, ...recording })}\n`);
    }
  }
  return lines.join('');
}
