import { createFocusedHistories, createScenes, histories, LEASE_MS, type Histories } from './histories.js';
import { GRACE_MS } from './replica.js';
import type { Setting } from './world.js';

/** Faulty variants, which the model must refute; `none` is the correct one. */
export type Mistake = 'none' | (typeof mistakes)[number]['name'];

const LEASED: Setting = { graceMs: 0, leasesMs: [LEASE_MS, LEASE_MS, LEASE_MS] };
const WITH_GRACE: Setting = { ...LEASED, graceMs: GRACE_MS };
/** Only one replica has a lease, so that no other one makes a call wait for longer. */
const LONE: Setting = { graceMs: 0, leasesMs: [LEASE_MS, 0, 0] };
const UNLEASED: Setting = { graceMs: 0, leasesMs: [0, 0, 0] };
/** As during a rolling restart that changes the lease. */
const MIXED: Setting = { graceMs: 0, leasesMs: [LEASE_MS, 100, 0] };

/** As during an upgrade from a version that does not know households. */
const UPGRADE: Setting = { ...LEASED, olderReplica: 1 };

export const settings: readonly Setting[] = [LEASED, WITH_GRACE, LONE, UNLEASED, MIXED, UPGRADE];

/**
 * Histories of the faults that show a mistake which the general ones rarely show. The correct rules hold under them
 * too.
 */
export const CRASHES = createFocusedHistories({ present: 12, end: 4, abort: 4, crash: 3 });
export const FAILOVERS = createFocusedHistories({
  present: 12,
  end: 4,
  abort: 6,
  'fail over': 3,
  'cut verifier': 3,
  route: 2,
});
export const STALE_REPLICAS = createFocusedHistories({ present: 12, end: 3, route: 6, 'cut replica': 3 });
export const PRUNES = createFocusedHistories({ present: 12, end: 3, prune: 6, 'cut verifier': 4 });
export const DISABLED_USERS = createFocusedHistories({ present: 12, disable: 1, route: 1 });
export const CLOCKS = createFocusedHistories({ present: 12, jump: 1, 'suspend verifier': 1 });
export const OVERLAPS = createFocusedHistories({ present: 8, 'present to replica': 8, end: 4, disable: 2 });
/** A replica restarts, and stands still with its announcement in flight. */
const STANDSTILLS = createScenes([{ act: 'restart replica' }, { act: 'standstill' }], {
  present: 6,
  'present to replica': 6,
  end: 3,
});
/**
 * A replica that was cut off comes back. A verifier with a filled memory polls it before it has announced its lease,
 * and is answered after that; a revocation commits in between.
 */
const RETURNS = createScenes(
  [
    { act: 'cut replica' },
    { act: 'restart replica' },
    { act: 'standstill', outMs: 5, backMs: 5 },
    { act: 'route', replica: 1, outMs: 5, backMs: 5 },
    { act: 'present', afterMs: 120, outMs: 5, backMs: 5 },
    { act: 'cut replica', afterMs: 100, outMs: 5, backMs: 5 },
    { act: 'restart replica', outMs: 100, backMs: 5 },
    { act: 'route', afterMs: 0, outMs: 5, backMs: 200 },
    { act: 'end', afterMs: 40, outMs: 5, holdMs: 0, backMs: 5 },
  ],
  { present: 8, 'cut verifier': 1 },
);
/** A replica is cut off after the slow answer to a poll; a revocation commits while that answer is on its way. */
const SLOW_POLLS = createScenes(
  [
    { act: 'present to replica', outMs: 5, backMs: 5 },
    { act: 'abort', outMs: 5, backMs: 300 },
    { act: 'end', afterMs: 210, outMs: 5, holdMs: 0, backMs: 5 },
    { act: 'cut replica', afterMs: 300 },
  ],
  { 'present to replica': 1 },
);
const REPLICAS = createFocusedHistories({ 'present to replica': 12, end: 4, 'cut replica': 2, 'pause replica': 2 });

export const MEMBERS = createFocusedHistories({
  'present member': 14,
  demote: 1,
  remove: 1,
  route: 2,
  'cut verifier': 1,
});
const HOUSEHOLD_ACTS = createFocusedHistories({
  'present member': 4,
  demote: 1,
  remove: 1,
  'other admin leaves': 1,
  'issue code': 2,
  'accept code': 2,
});

export const DELEGATIONS = createFocusedHistories({
  'present delegated': 14,
  'revoke pair': 1,
  'narrow pair': 1,
  disable: 1,
  end: 1,
  route: 2,
  'cut verifier': 1,
});
/** A user passes a chain, and comes without one, in the same session. */
export const ONWARD_CALLS = createFocusedHistories({ 'call onward': 14, 'revoke pair': 1, end: 1, route: 1 });

export const focusedHistories: readonly Histories[] = [
  CRASHES,
  FAILOVERS,
  STALE_REPLICAS,
  PRUNES,
  DISABLED_USERS,
  CLOCKS,
  OVERLAPS,
  STANDSTILLS,
  RETURNS,
  SLOW_POLLS,
  REPLICAS,
  MEMBERS,
  HOUSEHOLD_ACTS,
  DELEGATIONS,
  ONWARD_CALLS,
];

const plant = <Name extends string>(name: Name, seed: number, where: Histories, setting = LEASED) => ({
  name,
  seed,
  where,
  setting,
});

/** Each mistake, where it is looked for, and a seed that finds it among the first ten histories. */
export const mistakes = [
  plant('no wait', 2, histories),
  plant('seq instead of snapshot', 6, OVERLAPS),
  plant('horizon instead of snapshot', 9, FAILOVERS),
  plant('epoch not compared', 9, FAILOVERS),
  plant('epoch without the crash', 5, CRASHES),
  plant('purge unnoticed', 14, histories),
  plant('lease of a poll from the answer', 8, histories),
  plant('lease of a verdict from the answer', 8, histories),
  plant('lease of the replica from the answer', 1, SLOW_POLLS),
  plant('late answer used', 8, histories),
  plant('grace handed on', 6, histories, WITH_GRACE),
  plant('verdict from a replica’s memory', 10, STALE_REPLICAS),
  plant('stale rows remembered', 174, REPLICAS),
  plant('reset remembered per connection', 18, histories),
  plant('user voids no ticket', 54, DISABLED_USERS),
  plant('list truncated', 22, histories),
  plant('log pruned without raising its start', 4, PRUNES),
  plant('repeated revocation does not wait', 21, histories),
  plant('entries end by the wall clock alone', 10, CLOCKS),
  plant('entries end by the monotonic clock alone', 2, CLOCKS),
  plant('announcements read before the commit', 15, STANDSTILLS, LONE),
  plant('lease under an old announcement', 28, STANDSTILLS, LONE),
  plant('lease judged when answered alone', 5, RETURNS, MIXED),
  plant('verdict judged when answered alone', 31, STANDSTILLS, LONE),
  plant('nothing announced without a lease', 6, histories, UNLEASED),
  plant('membership without a change', 1, MEMBERS),
  plant('removal does not wait', 1, MEMBERS),
  plant('remembered answer outlives a demotion', 1, MEMBERS),
  plant('code outlives its issuer', 1, HOUSEHOLD_ACTS),
  plant('last admin by look-then-write', 2, HOUSEHOLD_ACTS),
  plant('absent taken for none', 1, MEMBERS, UPGRADE),
  plant('earlier link not indexed', 5, DELEGATIONS),
  plant('scopes as signed', 1, DELEGATIONS),
  plant('expiry outside the term', 90, DELEGATIONS),
  plant('demands judged when asked', 1, DELEGATIONS),
  plant('token reused by session and target', 1, ONWARD_CALLS),
];
