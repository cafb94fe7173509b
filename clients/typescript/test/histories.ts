import fc from 'fast-check';
import { LEASE_MS, type Step } from './model.js';

const act = fc.oneof(
  { weight: 30, arbitrary: fc.constant<Step['act']>('present') },
  { weight: 3, arbitrary: fc.constantFrom<Step['act']>('end', 'disable') },
  { weight: 4, arbitrary: fc.constant<Step['act']>('route') },
  { weight: 3, arbitrary: fc.constantFrom<Step['act']>('cut verifier', 'cut replica') },
  { weight: 2, arbitrary: fc.constantFrom<Step['act']>('pause verifier', 'pause replica', 'restart replica') },
  { weight: 2, arbitrary: fc.constantFrom<Step['act']>('prune', 'jump', 'purge', 'abort', 'fail over', 'crash') },
);
const latency = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 1, max: 30 }) },
  { weight: 1, arbitrary: fc.integer({ min: 30, max: LEASE_MS }) },
);
/** What may happen to two verifiers, three replicas and PostgreSQL. */
export const histories = fc.array(
  fc.record<Step>({
    afterMs: fc.integer({ min: 0, max: LEASE_MS / 5 }),
    act,
    verifier: fc.integer({ min: 0, max: 1 }),
    replica: fc.integer({ min: 0, max: 2 }),
    credential: fc.integer({ min: 0, max: 3 }),
    outMs: latency,
    holdMs: fc.integer({ min: 0, max: 200 }),
    backMs: latency,
  }),
  { minLength: 40, maxLength: 100 },
);
