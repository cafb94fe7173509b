/**
 * When a key ends, and why it is refused afterwards: it is revoked, it expires, or a rotation replaces it. A rotated
 * key ends at once, at the end of the overlap, when an operator finishes the rotation, or, for a node, at the first use
 * of the new key (docs/decisions/0009). `determineKeyStatus` decides, and `explainKey` tells operators the same in
 * words. Calls that end a key early answer after every replica has evicted it (revocation/propagation.ts).
 */
import type { AuditLog } from '../audit/audit-log.js';
import { withAuditEvent } from '../audit/audit-events.js';
import { addDays } from '../../foundation/common/clock.js';
import type { KeyRefusalReason } from '../../foundation/common/key-kinds.js';
import { computeDigest, generateSecretBytes, isSameDigest, type SecretDigest } from '../../foundation/crypto/secret.js';
import type { ComparedClock } from '../../foundation/database/compared-clock.js';
import { isWriteRefusal } from '../../foundation/database/database-failure.js';
import type { Database, Statement } from '../../foundation/database/database.js';
import { toErrorFields, type Log } from '../../foundation/logging/log.js';
import {
  isLiveAt,
  readLastUses,
  type KeyColumns,
  type KeyKind,
  type KeyTable,
  type RestrictionViolation,
} from './key-record.js';

export type KeyRow = Readonly<
  Pick<KeyColumns, 'id' | 'keyDigest' | 'previousKeyDigest' | 'previousKeyExpiresAt' | 'expiresAt' | 'revokedAt'>
>;

export const listKeyColumns = (table: KeyTable): string => `${table}.id, ${table}.key_digest AS "keyDigest",
  ${table}.previous_key_digest AS "previousKeyDigest", ${table}.previous_key_expires_at AS "previousKeyExpiresAt",
  ${table}.expires_at AS "expiresAt", ${table}.revoked_at AS "revokedAt"`;

/** On `current_in_overlap`, a node's overlap must be ended before the response is sent. */
type KeyStatus = KeyRefusalReason | 'current' | 'current_in_overlap' | 'previous';

/** Compared in place of an absent digest, so that the duration of a refusal does not reveal that an id exists. */
const DUMMY_DIGEST = computeDigest(generateSecretBytes());

/**
 * @param clock read only when the status depends on the time
 * @throws {WrongClockError} when it does and the clock is wrong
 */
export function determineKeyStatus(presented: SecretDigest, row: KeyRow | undefined, clock: ComparedClock): KeyStatus {
  const isCurrent = isSameDigest(presented, row?.keyDigest ?? DUMMY_DIGEST);
  const isPrevious = isSameDigest(presented, row?.previousKeyDigest ?? DUMMY_DIGEST);
  if (!row) return 'unknown';
  const isInOverlap = isPrevious && row.previousKeyExpiresAt !== null && row.previousKeyExpiresAt > clock.trustedNow();
  if (!isCurrent && !isInOverlap) return 'wrong_key';
  if (row.revokedAt) return 'revoked';
  if (row.expiresAt && row.expiresAt <= clock.trustedNow()) return 'expired';
  if (!isCurrent) return 'previous';
  return row.previousKeyDigest ? 'current_in_overlap' : 'current';
}

/** @returns the end of the previous key: that of the overlap, or that of the credential if it is earlier; null without one */
export function findOverlapEnd({
  expiresAt,
  previousKeyExpiresAt,
}: Pick<KeyRow, 'expiresAt' | 'previousKeyExpiresAt'>): Date | null {
  const isCutShort = expiresAt && previousKeyExpiresAt && expiresAt < previousKeyExpiresAt;
  return isCutShort ? expiresAt : previousKeyExpiresAt;
}

/** @returns the end of a key that is made now; undefined without a life */
export function computeKeyEnd(now: Date, lifeDays: number | null | undefined): Date | undefined {
  return lifeDays == null ? undefined : addDays(now, lifeDays);
}

export function isRefusal(status: KeyStatus): status is KeyRefusalReason {
  return status !== 'current' && status !== 'current_in_overlap' && status !== 'previous';
}

export function buildLifecycleStatements(kind: Pick<KeyKind, 'table' | 'shared'>) {
  const { table } = kind;
  return {
    rotate: withAuditEvent(
      { name: `${table}_rotate`, text: buildRotation(kind) },
      `(SELECT jsonb_build_object('before',
          jsonb_build_object('rotated_at', rotated, 'previous_key_expires_at', overlap)) FROM act)`,
    ),
    revoke: withAuditEvent({
      name: `${table}_revoke`,
      text: `UPDATE ${table} SET revoked_at = $2, updated_at = $2, revoked_by_request = $3
         WHERE id = $1 AND revoked_at IS NULL RETURNING id`,
    }),
    finishRotation: withAuditEvent({
      name: `${table}_finish_rotation`,
      text: `UPDATE ${table} SET previous_key_digest = NULL, previous_key_expires_at = NULL,
           overlap_ended_at = LEAST(previous_key_expires_at, $2), overlap_ended_by_request = $3, updated_at = $2
         WHERE id = $1 AND previous_key_digest IS NOT NULL RETURNING id`,
    }),
  };
}

/** Ignores a use more than an hour ahead, which a replica with a wrong clock recorded. */
const IS_NEW_KEY_IN_USE = `overlap > $4 AND last_used_at BETWEEN rotated AND $4 + interval '1 hour'`;

/**
 * Without an overlap the old digest is deleted, so that a slow clock cannot accept that key again. During an overlap
 * the older of both keys stays, because the client may never have received the newer one; a shared key whose newer one
 * is in use is not rotated, because either choice would stop a replica.
 * `$1`: id, `$2`: digest of the new key, `$3`: end of the overlap, `$4`: now, `$5`: request id, `$6`: the last rotation
 * as the caller knows it (its time, `never`, or null for no statement), `$7`: the end of the new key, if keys have a
 * life: then an old one keeps its own end at the latest.
 */
const buildRotation = ({ table, shared }: Pick<KeyKind, 'table' | 'shared'>): string => `UPDATE ${table}
    SET previous_key_digest = CASE WHEN $3::timestamptz <= $4 THEN NULL
                                   WHEN previous_key_expires_at > $4 THEN previous_key_digest ELSE key_digest END,
        previous_key_expires_at = CASE WHEN $3 <= $4 THEN NULL WHEN $7::timestamptz IS NULL THEN $3
            WHEN previous_key_expires_at > $4 THEN LEAST($3, previous_key_expires_at) ELSE LEAST($3, expires_at) END,
        expires_at = COALESCE($7, expires_at), key_digest = $2, rotated_at = $4, updated_at = $4,
        rotated_by_request = $5, overlap_ended_at = NULL, overlap_ended_by_request = NULL,
        previous_key_used_at = CASE WHEN previous_key_expires_at > $4 THEN previous_key_used_at ELSE last_used_at END,
        previous_key_used_for = CASE WHEN previous_key_expires_at > $4 THEN previous_key_used_for ELSE last_used_for END
    FROM (SELECT id AS held, rotated_at AS rotated, previous_key_expires_at AS overlap
          FROM ${table} WHERE id = $1 FOR NO KEY UPDATE) AS before
    WHERE id = held AND ${isLiveAt('$4')}
      AND ($6::text IS NULL OR rotated IS NOT DISTINCT FROM NULLIF($6, 'never')::timestamptz)
      ${shared ? `AND NOT COALESCE($3 > $4 AND ${IS_NEW_KEY_IN_USE}, false)` : ''}
    RETURNING id, rotated, overlap`;

export class Overlaps {
  private readonly statement: Statement;
  /** False after a failure, so that only the first is logged: on a read-only database each use of a new key fails. */
  private canEnd = true;

  constructor(
    private readonly database: Database,
    table: KeyTable,
    private readonly log: Log,
  ) {
    this.statement = {
      name: `${table}_end_overlap`,
      text: `UPDATE ${table} SET previous_key_digest = NULL, previous_key_expires_at = NULL,
             overlap_ended_at = LEAST(overlap_ended_at, previous_key_expires_at, $3)
         WHERE id = $1 AND key_digest = $2 RETURNING id`,
    };
  }

  /** @returns false when another rotation has replaced the key meanwhile, and the row must be read again */
  async endOverlap(id: string, currentDigest: SecretDigest, now: Date): Promise<boolean> {
    try {
      const ended = await this.database.row(this.statement, [id, currentDigest, now]);
      this.canEnd = true;
      return ended !== undefined;
    } catch (error) {
      // On a read-only database the key stays valid, and the overlap ends at its deadline.
      if (!isWriteRefusal(error)) throw error;
      if (this.canEnd) this.log.warn('overlap_not_ended', { error: toErrorFields(error) });
      this.canEnd = false;
      return true;
    }
  }
}

export const REASON_CODES = [
  'unknown',
  'revoked',
  'expired',
  'target',
  'other_target',
  'missing_scope',
  'key_rotated',
  'overlap_ended',
] as const;

/** Why a key is refused. Only operators see it, because a door answers every refusal alike. */
export interface Reason {
  readonly code: (typeof REASON_CODES)[number];
  readonly detail: string;
  readonly since: Date | null;
  /** Id of the request that revoked or rotated the key. */
  readonly requestId: string | null;
  readonly actor?: string | null;
}

export interface Explanation {
  /** Empty when the current key is valid. */
  readonly reasons: readonly Reason[];
  readonly previousKey: PreviousKey | null;
  readonly lastUses: ReturnType<typeof readLastUses>;
}

interface PreviousKey {
  readonly acceptedUntil: Date | null;
  readonly reasons: readonly Reason[];
}

export function explainUnknownKey(): Explanation {
  const detail = 'No credential has this id: it was never issued here, or it was purged after its end.';
  const reason = { code: 'unknown', detail, since: null, requestId: null } as const;
  return { reasons: [reason], previousKey: null, lastUses: { latest: null, current: null, previous: null } };
}

export function explainKey(row: KeyColumns, now: Date, violation?: RestrictionViolation): Explanation {
  const reasons: Reason[] = [];
  if (row.revokedAt) {
    const detail = 'It was revoked, which cannot be undone. Issue a new one.';
    reasons.push({ code: 'revoked', detail, since: row.revokedAt, requestId: row.revokedByRequest });
  }
  if (row.expiresAt && row.expiresAt <= now) {
    const detail = 'It has expired. Issue a new one, or extend expires_at of a node.';
    reasons.push({ code: 'expired', detail, since: row.expiresAt, requestId: null });
  }
  if (violation) reasons.push({ ...violation, since: null, requestId: null });
  return {
    reasons,
    previousKey: row.rotatedAt ? explainPreviousKey(row, row.rotatedAt, now, reasons) : null,
    lastUses: readLastUses(row),
  };
}

/** Adds the actors of the requests that the audit log still has. */
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

function explainPreviousKey(row: KeyColumns, rotatedAt: Date, now: Date, ofCredential: readonly Reason[]): PreviousKey {
  const deadline = row.previousKeyExpiresAt;
  if (deadline && deadline > now) {
    return { acceptedUntil: ofCredential.length > 0 ? null : findOverlapEnd(row), reasons: ofCredential };
  }
  const rotated: Reason = {
    code: 'key_rotated',
    detail:
      'It was replaced by a newer key. Only that one is valid: install it where the old key is still used, or ' +
      'rotate again.',
    since: rotatedAt,
    requestId: row.rotatedByRequest,
  };
  const ended: Reason = {
    code: 'overlap_ended',
    detail: describeEnd(row),
    since: row.overlapEndedAt ?? deadline,
    requestId: row.overlapEndedByRequest,
  };
  return { acceptedUntil: null, reasons: [...ofCredential, rotated, ended] };
}

function describeEnd({ overlapEndedAt, overlapEndedByRequest }: KeyColumns): string {
  if (overlapEndedByRequest !== null) return 'The rotation was finished, which ended the overlap.';
  return overlapEndedAt
    ? 'The first use of the newer key ended the overlap.'
    : 'The overlap, in which both keys are valid, is over.';
}
