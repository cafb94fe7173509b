import type { KeyColumns } from './key-columns.js';

export const REASON_CODES = ['unknown', 'revoked', 'expired', 'other_target', 'key_rotated', 'overlap_ended'] as const;

/** One reason to refuse a key, for an operator to read. The doors never tell it. */
export interface Reason {
  readonly code: (typeof REASON_CODES)[number];
  readonly detail: string;
  readonly since: Date | null;
  /** The request that brought it about. */
  readonly requestId: string | null;
}

/** What would happen to a credential's keys if they were presented now. */
export interface Explanation {
  /** Why the current key would be refused; empty when it would be accepted. */
  readonly reasons: readonly Reason[];
  /** The key before the last rotation; null when there was none. */
  readonly previousKey: { readonly acceptedUntil: Date | null; readonly reasons: readonly Reason[] } | null;
  readonly lastAcceptedAt: Date | null;
  readonly lastAcceptedFor: string | null;
}

const UNKNOWN: Reason = {
  code: 'unknown',
  detail: 'No credential has this id: it was never issued here, or it has been dead so long that it was purged.',
  since: null,
  requestId: null,
};

export function explainUnknown(): Explanation {
  return { reasons: [UNKNOWN], previousKey: null, lastAcceptedAt: null, lastAcceptedFor: null };
}

/**
 * @param row as the database holds it now
 * @param otherTarget the service that the key is good for, when it was asked about another one
 */
export function explain(row: KeyColumns, now: Date, otherTarget?: string): Explanation {
  const reasons: Reason[] = [];
  if (row.revokedAt) {
    const detail = 'It was revoked, which cannot be undone. Issue a new one.';
    reasons.push({ code: 'revoked', detail, since: row.revokedAt, requestId: row.revokedByRequest });
  }
  if (row.expiresAt && row.expiresAt <= now) {
    const detail = 'It was issued to be good until this moment. Issue a new one, or move expires_at of a node.';
    reasons.push({ code: 'expired', detail, since: row.expiresAt, requestId: null });
  }
  if (otherTarget !== undefined) {
    const detail = `It is good for ${otherTarget} only. Each pair of services has a credential of its own.`;
    reasons.push({ code: 'other_target', detail, since: null, requestId: null });
  }
  return {
    reasons,
    previousKey: row.rotatedAt ? explainPrevious(row, row.rotatedAt, now, reasons) : null,
    lastAcceptedAt: row.lastUsedAt,
    lastAcceptedFor: row.lastUsedFor,
  };
}

function explainPrevious(row: KeyColumns, rotatedAt: Date, now: Date, ofCredential: readonly Reason[]) {
  const deadline = row.previousKeyExpiresAt;
  if (deadline && deadline > now) {
    return { acceptedUntil: ofCredential.length > 0 ? null : deadline, reasons: ofCredential };
  }
  const rotated: Reason = {
    code: 'key_rotated',
    detail:
      'A newer key was made. Only that one is good: put it where the old one is still presented, or rotate again.',
    since: rotatedAt,
    requestId: row.rotatedByRequest,
  };
  const firstUse = row.overlapEndedAt;
  const ended: Reason = {
    code: 'overlap_ended',
    detail: firstUse
      ? 'The newer key was used, which ends the older one if its deadline has not.'
      : 'The time in which both keys are good is over.',
    since: firstUse ?? deadline,
    requestId: null,
  };
  return { acceptedUntil: null, reasons: [...ofCredential, rotated, ended] };
}
