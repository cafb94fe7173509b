import type { KeyRefusalReason } from '../common/security-events.js';
import { computeDigest, generateSecretBytes, isSameDigest, type SecretDigest } from '../crypto/secret.js';

/** The columns that decide whether a key is valid. */
export interface KeyRow {
  readonly id: string;
  readonly key_digest: SecretDigest;
  readonly previous_key_digest: SecretDigest | null;
  readonly previous_key_expires_at: Date | null;
  readonly expires_at: Date | null;
  readonly revoked_at: Date | null;
}

/**
 * What a presented key is by its row: why it is refused, or which of the two keys of a rotation it is. The first use of
 * `current_in_overlap` has to end the overlap before the response is sent.
 */
export type Judgement = KeyRefusalReason | 'current' | 'current_in_overlap' | 'previous';

/** Stands in for an absent digest: every refusal takes the same time (constant-time, against enumeration of ids). */
const DUMMY_DIGEST = computeDigest(generateSecretBytes());

/** @param row undefined when there is none with the presented id or digest */
export function judgeKey(presented: SecretDigest, row: KeyRow | undefined, now: Date): Judgement {
  const isCurrent = isSameDigest(presented, row?.key_digest ?? DUMMY_DIGEST);
  const isPrevious = isSameDigest(presented, row?.previous_key_digest ?? DUMMY_DIGEST);
  if (!row) return 'unknown';
  const isInOverlap = isPrevious && row.previous_key_expires_at !== null && row.previous_key_expires_at > now;
  if (!isCurrent && !isInOverlap) return 'wrong_key';
  if (row.revoked_at) return 'revoked';
  if (row.expires_at && row.expires_at <= now) return 'expired';
  if (!isCurrent) return 'previous';
  return row.previous_key_digest ? 'current_in_overlap' : 'current';
}

export function isRefusal(judgement: Judgement): judgement is KeyRefusalReason {
  return judgement !== 'current' && judgement !== 'current_in_overlap' && judgement !== 'previous';
}
