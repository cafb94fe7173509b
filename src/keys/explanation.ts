import type { AuditLog } from '../audit/audit-log.js';
import type { KeyColumns } from './key-columns.js';

export const REASON_CODES = ['unknown', 'revoked', 'expired', 'other_target', 'key_rotated', 'overlap_ended'] as const;

/** One reason to refuse a key, for operators only: the doors answer every refusal alike. */
export interface Reason {
  readonly code: (typeof REASON_CODES)[number];
  readonly detail: string;
  readonly since: Date | null;
  /** The request that revoked or rotated. */
  readonly requestId: string | null;
  /** The actor of that request, by the audit log: a door, or `operator:<name>`. */
  readonly actor?: string | null;
}

/** Whether a credential's keys would be accepted now, and why not. */
export interface Explanation {
  /** Why the current key would be refused; empty when it would be accepted. */
  readonly reasons: readonly Reason[];
  /** The key before the last rotation; null before the first rotation. */
  readonly previousKey: { readonly acceptedUntil: Date | null; readonly reasons: readonly Reason[] } | null;
  readonly lastAcceptedAt: Date | null;
  readonly lastAcceptedFor: string | null;
}

const UNKNOWN: Reason = {
  code: 'unknown',
  detail: 'No credential has this id: it was never issued here, or it was purged after its end.',
  since: null,
  requestId: null,
};

export function explainUnknownKey(): Explanation {
  return { reasons: [UNKNOWN], previousKey: null, lastAcceptedAt: null, lastAcceptedFor: null };
}

/**
 * @param otherTarget the service that the key is valid at, when the operator asked about another one
 */
export function explainKey(row: KeyColumns, now: Date, otherTarget?: string): Explanation {
  const reasons: Reason[] = [];
  if (row.revokedAt) {
    const detail = 'It was revoked, which cannot be undone. Issue a new one.';
    reasons.push({ code: 'revoked', detail, since: row.revokedAt, requestId: row.revokedByRequest });
  }
  if (row.expiresAt && row.expiresAt <= now) {
    const detail = 'It was valid until this moment. Issue a new one, or for a node change expires_at.';
    reasons.push({ code: 'expired', detail, since: row.expiresAt, requestId: null });
  }
  if (otherTarget !== undefined) {
    const detail = `It is valid at ${otherTarget} only. Each pair of services has its own credential.`;
    reasons.push({ code: 'other_target', detail, since: null, requestId: null });
  }
  return {
    reasons,
    previousKey: row.rotatedAt ? explainPreviousKey(row, row.rotatedAt, now, reasons) : null,
    lastAcceptedAt: row.lastUsedAt,
    lastAcceptedFor: row.lastUsedFor,
  };
}

/** Adds the actors of the requests, which the audit log knows until the month is dropped. */
export async function nameActors(explanation: Explanation, subject: string, audit: AuditLog): Promise<Explanation> {
  const name = (reasons: readonly Reason[]): Promise<Reason[]> =>
    Promise.all(
      reasons.map(async (reason) =>
        reason.requestId === null ? reason : { ...reason, actor: await audit.findActor(subject, reason.requestId) },
      ),
    );
  const { reasons, previousKey } = explanation;
  return {
    ...explanation,
    reasons: await name(reasons),
    previousKey: previousKey && { ...previousKey, reasons: await name(previousKey.reasons) },
  };
}

function explainPreviousKey(row: KeyColumns, rotatedAt: Date, now: Date, ofCredential: readonly Reason[]) {
  const deadline = row.previousKeyExpiresAt;
  if (deadline && deadline > now) {
    return { acceptedUntil: ofCredential.length > 0 ? null : deadline, reasons: ofCredential };
  }
  const rotated: Reason = {
    code: 'key_rotated',
    detail:
      'It was replaced by a newer key. Only that one is valid: install it where the old key is still used, or rotate again.',
    since: rotatedAt,
    requestId: row.rotatedByRequest,
  };
  const firstUse = row.overlapEndedAt;
  const ended: Reason = {
    code: 'overlap_ended',
    detail: firstUse
      ? 'The first use of the newer key ended the overlap.'
      : 'The overlap, in which both keys are valid, is over.',
    since: firstUse ?? deadline,
    requestId: null,
  };
  return { acceptedUntil: null, reasons: [...ofCredential, rotated, ended] };
}
