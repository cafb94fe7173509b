import { computeRevocationWaitMs, MAX_LEASE_MS } from './lease.js';
import { MAX_OVERLAP_HOURS } from './limits.js';
import { flag, leaseMs, wholeNumber } from './variable-kinds.js';
import type { Section } from './variable.js';

const DEFAULT_LEASE_MS = 500;

export const keySection = {
  title: 'App and node keys',
  variables: {
    KEY_OVERLAP_HOURS: {
      type: wholeNumber(0, MAX_OVERLAP_HOURS).default(24),
      meaning: 'how long a rotated key goes on working if the new one is not used',
      explanation:
        'How long the old key works after a rotation if the new one is not used, {bounds} hours. A rotation may say ' +
        'otherwise.',
    },
    REVOCATION_LEASE_MS: {
      type: leaseMs.default(DEFAULT_LEASE_MS),
      meaning:
        'how long a replica may answer from its key cache after it last asked the database what changed; 0: no cache',
      explanation:
        'How long a replica may answer validations from its cache after it last asked the database what was revoked, ' +
        '{bounds} milliseconds. 0: no cache. It may be changed in a rolling restart.',
    },
    REVOCATION_WAIT_MS: {
      type: wholeNumber(0, 2 * MAX_LEASE_MS).optional(),
      defaultText: '1.02 × the lease + 2',
      example: computeRevocationWaitMs(DEFAULT_LEASE_MS),
      meaning:
        'how long revoking calls wait at least; longer while another replica announces a ' +
        '[longer lease](decisions/0033-revocation-lease.md)',
      explanation:
        'The least time for which a call that revokes waits before it answers, {bounds} milliseconds; at least ' +
        '1.02 x REVOCATION_LEASE_MS + 2, which is the default. It waits longer while another replica announces a longer ' +
        'lease. With REVOCATION_LEASE_MS=0, verifiers need it above 0 and the same on every replica.',
    },
    OUTAGE_GRACE_SECONDS: {
      type: wholeNumber(0, 86_400).default(0),
      meaning: 'how much longer while the database is unavailable, at the price of late revocations',
      explanation:
        'How much longer cached keys are accepted while the database is unavailable, {bounds} seconds. Above 0, a ' +
        'replica that is cut off may accept a key that was revoked meanwhile: for that long, and no longer.',
    },
    CREDENTIAL_MEMORY_SIZE: {
      type: wholeNumber(1, 10_000_000).default(100_000),
      meaning: 'cached keys, for nodes and for apps each',
      explanation: 'Size of the key cache of each replica, for nodes and for apps each, {bounds} keys.',
    },
    VALIDATE_NODE_REQUIRES_APP: {
      type: flag,
      meaning: '`/internal/validate-node` demands app headers too',
      explanation:
        "true: /internal/validate-node needs the calling service's app headers too. false: they are checked when sent.",
    },
  },
} satisfies Section;
