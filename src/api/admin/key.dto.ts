import type { Type } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import { EXAMPLES } from '../../foundation/common/names.js';
import {
  FlagField,
  MOMENT,
  MomentField,
  NULLABLE_MOMENT,
  NULLABLE_TEXT,
  parseMoment,
  UuidListField,
  WholeNumberField,
} from '../../foundation/common/fields.js';
import {
  DEFAULT_OVERLAP_HOURS,
  EXPIRY_NOTICE_DAYS,
  MAX_OVERLAP_HOURS,
  MAX_REVOKED_KEYS,
  UNUSED_DAYS,
} from '../../foundation/config/limits.js';
import { PageQuery } from '../../foundation/http/page.dto.js';
import { findOverlapEnd } from '../../domain/keys/key-lifecycle.js';
import { readLastUses, type KeyColumns, type KeyCounts, type KeyFilter } from '../../domain/keys/key-record.js';
import { problems, type Problem } from '../../foundation/problems/problems.js';

export class KeysQuery extends PageQuery {
  @FlagField('only keys that are neither revoked nor expired') live?: true;

  @MomentField('only keys that were not used since this moment; a key that was never used counts from its creation')
  unused_since?: string;

  @MomentField('only keys that expire before this moment') expires_before?: string;
  @FlagField('only keys that were rotated, and whose former key is still valid') in_overlap?: true;
}

export function toKeyFilter({ live, unused_since, expires_before, in_overlap }: KeysQuery): KeyFilter {
  return {
    isLive: live === true,
    unusedSince: parseMoment(unused_since),
    expiresBefore: parseMoment(expires_before),
    isInOverlap: in_overlap === true,
  };
}

export class KeyCountsResponse implements KeyCounts {
  @ApiProperty({ type: 'integer', description: 'neither revoked nor expired', example: 20 }) live!: number;
  @ApiProperty({ type: 'integer', description: 'revoked or expired, and not purged yet', example: 3 }) ended!: number;

  @ApiProperty({ type: 'integer', description: `live, and not used for ${UNUSED_DAYS} days`, example: 1 })
  unused!: number;

  @ApiProperty({ type: 'integer', description: `live, and expiring within ${EXPIRY_NOTICE_DAYS} days`, example: 0 })
  expiring!: number;
}

/** The public fields of a key: neither the key nor its digest. */
export abstract class KeyResponse {
  @ApiProperty(MOMENT) created_at!: string;
  @ApiProperty(MOMENT) updated_at!: string;
  @ApiProperty({ ...NULLABLE_MOMENT, description: 'refused from this moment on' }) expires_at!: string | null;
  @ApiProperty({ ...NULLABLE_MOMENT, description: 'refused since this moment' }) revoked_at!: string | null;
  @ApiProperty(NULLABLE_MOMENT) rotated_at!: string | null;

  @ApiProperty({
    ...NULLABLE_MOMENT,
    description:
      'until then the key before the last rotation is valid too; never later than expires_at; of a node, at most until the ' +
      'first use of the new one',
  })
  previous_key_expires_at!: string | null;

  @ApiProperty({ ...NULLABLE_MOMENT, description: 'with either key; written with a delay of up to half a minute' })
  last_used_at!: string | null;

  @ApiProperty({ ...NULLABLE_MOMENT, description: 'when the current key was last used' })
  current_key_used_at!: string | null;

  @ApiProperty({
    ...NULLABLE_MOMENT,
    description:
      'when the key before the last rotation was last used, also before that rotation; null: never, or no such key',
  })
  previous_key_used_at!: string | null;

  @ApiProperty({
    ...NULLABLE_TEXT,
    description:
      'the service that this use was for: the forwarding app, or the named target; null when neither was sent',
    example: null,
  })
  previous_key_used_for!: string | null;

  protected static toKeyFields(row: KeyColumns): KeyResponse {
    const { latest, current, previous } = readLastUses(row);
    return {
      created_at: row.createdAt.toISOString(),
      updated_at: row.updatedAt.toISOString(),
      expires_at: row.expiresAt?.toISOString() ?? null,
      revoked_at: row.revokedAt?.toISOString() ?? null,
      rotated_at: row.rotatedAt?.toISOString() ?? null,
      previous_key_expires_at: findOverlapEnd(row)?.toISOString() ?? null,
      last_used_at: latest?.at.toISOString() ?? null,
      current_key_used_at: current?.at.toISOString() ?? null,
      previous_key_used_at: previous?.at.toISOString() ?? null,
      previous_key_used_for: previous?.service ?? null,
    };
  }
}

const OVERLAP_DESCRIPTION = `how long the old key stays valid; 0 ends it at once. Default: ${DEFAULT_OVERLAP_HOURS}`;

export class RotateRequest {
  @WholeNumberField(0, MAX_OVERLAP_HOURS, OVERLAP_DESCRIPTION, DEFAULT_OVERLAP_HOURS)
  overlap_hours = DEFAULT_OVERLAP_HOURS;
}

export class RevokeKeysRequest {
  @UuidListField(MAX_REVOKED_KEYS) ids!: string[];
}

export class RevokedKeysResponse {
  @ApiProperty({ type: [String], description: 'those that this call revoked', example: [EXAMPLES.id] })
  revoked!: string[];
}

/** @param owners of the keys, in the plural */
export const describeRevocations = (owners: string) => ({
  summary: `Revoke several ${owners}`,
  description: 'As one by one, with one wait. Unknown ones, and those that were revoked before, are skipped.',
  returns: RevokedKeysResponse,
});

/** @param owner of the key, with its article */
export const describeRotation = (owner: string, returns: Type, ...further: Problem[]) => ({
  summary: `Rotate the key of ${owner}`,
  description:
    'The old key stays valid until the end of the overlap, or, if it is earlier, the first use of the new one.',
  refusals: [problems.notFound, ...further, problems.credentialRevoked, problems.credentialExpired],
  optionalBody: RotateRequest,
  returns,
});

/**
 * For a key that several replicas or programs present.
 * @param owner of the key, with its article
 */
export const describeSharedRotation = (owner: string, returns: Type, ...further: Problem[]) => ({
  ...describeRotation(owner, returns, ...further, problems.rotationUnfinished),
  description:
    'Both keys are valid until the end of the overlap, or until finish-rotation: the first use of the new one ends nothing, ' +
    'because replicas learn it one by one. During an overlap, while the new key is not in use, the key is rotated again and the ' +
    'older one stays; otherwise the answer is 409, unless `overlap_hours` is 0.',
});

/** @param owner of the key, with its article */
export const describeFinish = (owner: string, ...further: Problem[]) => ({
  summary: `Finish the rotation of the key of ${owner}`,
  description:
    'Ends the key before the last rotation now: no replica and no verifier accepts it when the call has answered. ' +
    '`previous_key_used_at` says when it was last used. Idempotent: 204 also when there is none.',
  refusals: [problems.notFound, ...further],
});
