import type { Type } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { IsInt, Max, Min } from 'class-validator';
import { IfSent, MOMENT, NULLABLE_MOMENT } from '../common/fields.js';
import { DEFAULT_OVERLAP_HOURS, MAX_OVERLAP_HOURS } from '../config/limits.js';
import type { KeyColumns } from '../keys/key-table.js';
import { problems, type Problem } from '../problems/problems.js';

/** The fields of a key that may be shown: no key and no digest. */
export abstract class KeyResponse {
  @ApiProperty(MOMENT)
  created_at!: string;

  @ApiProperty(MOMENT)
  updated_at!: string;

  @ApiProperty({ ...NULLABLE_MOMENT, description: 'refused from this moment on' })
  expires_at!: string | null;

  @ApiProperty({ ...NULLABLE_MOMENT, description: 'refused since this moment' })
  revoked_at!: string | null;

  @ApiProperty(NULLABLE_MOMENT)
  rotated_at!: string | null;

  @ApiProperty({
    ...NULLABLE_MOMENT,
    description: 'until then the key before the last rotation is valid too, unless the new one is used first',
  })
  previous_key_expires_at!: string | null;

  @ApiProperty({ ...NULLABLE_MOMENT, description: 'written with a delay of up to half a minute' })
  last_used_at!: string | null;

  protected static toKeyFields(row: KeyColumns): KeyResponse {
    return {
      created_at: row.createdAt.toISOString(),
      updated_at: row.updatedAt.toISOString(),
      expires_at: row.expiresAt?.toISOString() ?? null,
      revoked_at: row.revokedAt?.toISOString() ?? null,
      rotated_at: row.rotatedAt?.toISOString() ?? null,
      previous_key_expires_at: row.previousKeyExpiresAt?.toISOString() ?? null,
      last_used_at: row.lastUsedAt?.toISOString() ?? null,
    };
  }
}

export class RotateRequest {
  @ApiPropertyOptional({
    type: 'integer',
    minimum: 0,
    maximum: MAX_OVERLAP_HOURS,
    description: `how long the old key stays valid if the new one is not used; 0 ends it at once. Default: ${DEFAULT_OVERLAP_HOURS}`,
    example: 24,
  })
  @IfSent()
  @IsInt({ message: `must be a whole number from 0 to ${MAX_OVERLAP_HOURS}` })
  @Min(0, { message: `must be a whole number from 0 to ${MAX_OVERLAP_HOURS}` })
  @Max(MAX_OVERLAP_HOURS, { message: `must be a whole number from 0 to ${MAX_OVERLAP_HOURS}` })
  overlap_hours = DEFAULT_OVERLAP_HOURS;
}

/** @param owner of the key, with its article */
export const describeRotation = (owner: string, returns: Type, ...further: Problem[]) => ({
  summary: `Rotate the key of ${owner}`,
  description: 'The old key stays valid until the first use of the new one or the end of the overlap.',
  refusals: [problems.notFound, ...further, problems.credentialRevoked, problems.credentialExpired],
  optionalBody: RotateRequest,
  returns,
});
