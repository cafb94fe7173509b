import fc from 'fast-check';

export const LEASE_MS = 600;

const ACTS = [
  'present',
  'present to replica',
  'end',
  'disable',
  'route',
  'cut verifier',
  'cut replica',
  'pause verifier',
  'suspend verifier',
  'pause replica',
  'restart replica',
  'prune',
  'jump',
  'fail over',
  'crash',
  'abort',
  'purge',
  'standstill',
  'present member',
  'demote',
  'remove',
  'other admin leaves',
  'issue code',
  'accept code',
  'present delegated',
  'call onward',
  'revoke pair',
  'narrow pair',
] as const;
type Act = (typeof ACTS)[number];

export interface Step {
  readonly afterMs: number;
  readonly act: Act;
  readonly verifier: number;
  readonly replica: number;
  readonly credential: number;
  readonly outMs: number;
  readonly holdMs: number;
  readonly backMs: number;
}

export type Histories = fc.Arbitrary<Step[]>;

const WEIGHTS: Weights = {
  present: 180,
  'present to replica': 60,
  end: 9,
  disable: 9,
  route: 24,
  'cut verifier': 9,
  'cut replica': 9,
  'pause verifier': 4,
  'suspend verifier': 2,
  'pause replica': 4,
  'restart replica': 4,
  prune: 2,
  jump: 2,
  'fail over': 2,
  crash: 2,
  abort: 2,
  purge: 2,
  standstill: 2,
};

const latency = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 1, max: 30 }) },
  { weight: 1, arbitrary: fc.integer({ min: 30, max: LEASE_MS }) },
);

/** What may happen to two verifiers, three replicas and PostgreSQL. */
export const histories = createHistories(WEIGHTS, { verifiers: 2, replicas: 3 });

/** All acts of the model, on one verifier and two replicas. */
export const recordedHistories = createFocusedHistories({
  ...WEIGHTS,
  'present to replica': 0,
  'present member': 60,
  demote: 3,
  remove: 3,
  'present delegated': 60,
  'call onward': 30,
  'revoke pair': 4,
  'narrow pair': 4,
});

/** Histories of a few acts, on one verifier and two replicas. */
export function createFocusedHistories(weights: Weights): Histories {
  return createHistories(weights, { verifiers: 1, replicas: 2 });
}

/**
 * Histories with a fixed opening, at random moments, and a few acts after it on one verifier, one replica and one node.
 */
export function createScenes(opening: readonly Partial<Step>[], weights: Weights): Histories {
  const actors = { verifiers: 1, replicas: 1, credentials: 1 };
  const first = opening.map((given) => createStep(weights, actors).map((step) => ({ ...step, ...given })));
  const rest = fc.array(createStep(weights, actors), { minLength: 6, maxLength: 20 });
  return fc.tuple(fc.tuple(...first), rest).map(([steps, more]) => [...steps, ...more]);
}

type Weights = Partial<Readonly<Record<Act, number>>>;

interface Actors {
  readonly verifiers: number;
  readonly replicas: number;
  readonly credentials?: number;
}

function createHistories(weights: Weights, actors: Actors): Histories {
  return fc.array(createStep(weights, actors), { minLength: 40, maxLength: 100 });
}

function createStep(weights: Weights, { verifiers, replicas, credentials = 5 }: Actors): fc.Arbitrary<Step> {
  const acts = ACTS.map((act) => ({ weight: weights[act] ?? 0, arbitrary: fc.constant<Act>(act) }));
  return fc.record<Step>({
    afterMs: fc.integer({ min: 0, max: LEASE_MS / 5 }),
    act: fc.oneof(...acts.filter(({ weight }) => weight > 0)),
    verifier: fc.integer({ min: 0, max: verifiers - 1 }),
    replica: fc.integer({ min: 0, max: replicas - 1 }),
    credential: fc.integer({ min: 0, max: credentials - 1 }),
    outMs: latency,
    holdMs: fc.integer({ min: 0, max: 200 }),
    backMs: latency,
  });
}
