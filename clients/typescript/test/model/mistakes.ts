import type { Mistake as ProtocolMistake } from '../../../../test/keys/simulation.js';
import { createFocusedHistories, histories, type Histories } from './histories.js';

/** Faulty variants, which the model must refute; `none` is the correct one. */
export type Mistake =
  | ProtocolMistake
  | 'lease of a poll from the answer'
  | 'lease of a verdict from the answer'
  | 'lease of the replica from the answer'
  | 'late answer used'
  | 'grace handed on'
  | 'verdict from a replica’s memory'
  | 'reset remembered per connection'
  | 'user voids no ticket'
  | 'list truncated'
  | 'log pruned without raising its start'
  | 'repeated revocation does not wait'
  | 'entries end by the wall clock alone'
  | 'entries end by the monotonic clock alone';

/** Histories of the faults that show a mistake which the general ones rarely show. The correct rules hold under them too. */
const CRASHES = createFocusedHistories({ present: 12, end: 4, abort: 4, crash: 3 });
const FAILOVERS = createFocusedHistories({
  present: 12,
  end: 4,
  abort: 6,
  'fail over': 3,
  'cut verifier': 3,
  route: 2,
});
const STALE_REPLICAS = createFocusedHistories({ present: 12, end: 3, route: 6, 'cut replica': 3 });
const PRUNES = createFocusedHistories({ present: 12, end: 3, prune: 6, 'cut verifier': 4 });
const DISABLED_USERS = createFocusedHistories({ present: 12, disable: 1, route: 1 });
const CLOCKS = createFocusedHistories({ present: 12, jump: 1, 'suspend verifier': 1 });

export const focusedHistories: readonly Histories[] = [
  CRASHES,
  FAILOVERS,
  STALE_REPLICAS,
  PRUNES,
  DISABLED_USERS,
  CLOCKS,
];

/** Each mistake, and the histories in which it is looked for. */
export const mistakes: readonly (readonly [Exclude<Mistake, 'none'>, Histories])[] = [
  ['no wait', histories],
  ['horizon instead of snapshot', FAILOVERS],
  ['epoch not compared', histories],
  ['epoch without the crash', CRASHES],
  ['purge unnoticed', histories],
  ['lease of a poll from the answer', histories],
  ['lease of a verdict from the answer', histories],
  ['lease of the replica from the answer', histories],
  ['late answer used', histories],
  ['grace handed on', histories],
  ['verdict from a replica’s memory', STALE_REPLICAS],
  ['reset remembered per connection', histories],
  ['user voids no ticket', DISABLED_USERS],
  ['list truncated', histories],
  ['log pruned without raising its start', PRUNES],
  ['repeated revocation does not wait', histories],
  ['entries end by the wall clock alone', CLOCKS],
  ['entries end by the monotonic clock alone', CLOCKS],
];
