import { Post, Req } from '@nestjs/common';
import { ApiProperty, ApiOperation } from '@nestjs/swagger';
import type { Request } from 'express';
import { Memberships } from '../../domain/households/memberships.js';
import { Freshness } from '../../domain/revocation/propagation.js';
import { getPrincipal } from '../../foundation/access/principals.js';
import { RequireForwardedUser, Answers, InternalController } from '../../foundation/access/require.js';
import { ID } from '../../foundation/common/fields.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { HouseholdsField, type HouseholdOfUser } from './household.dto.js';

class ValidUserResponse {
  @ApiProperty({ enum: [true] }) valid!: true;
  @ApiProperty(ID) user_id!: string;
  @ApiProperty({ type: String, format: 'uuid', example: '01985f4e-80aa-7c11-8a3e-6f0b1f4f2a10' }) session_id!: string;
  @ApiProperty({ type: String, format: 'email', example: EXAMPLES.email }) email!: string;

  @ApiProperty({
    type: String,
    format: 'date-time',
    description: 'when the access token, or its session, ends',
    example: '2026-11-21T09:15:00.000Z',
  })
  expires_at!: string;

  @ApiProperty({
    type: [String],
    description: 'how the user authenticated at the login (RFC 8176); `mfa`: with more than one factor',
    example: ['pwd', 'otp', 'mfa'],
  })
  amr!: string[];

  @HouseholdsField() households!: readonly HouseholdOfUser[];
}

@InternalController()
export class ValidateUserController {
  constructor(
    private readonly freshness: Freshness,
    private readonly memberships: Memberships,
  ) {}

  @Post('validate-user')
  @RequireForwardedUser()
  @ApiOperation({
    summary: 'Validate the access token of a user',
    description:
      'Forward the Authorization header that a client sent, without a body. Unlike a check of the signature, it also ' +
      'finds sessions that have ended, and names the households of the user. If you also send your own app credential for ' +
      'this service, both must be valid.',
  })
  @Answers(200, ValidUserResponse)
  async validateUser(@Req() request: Request): Promise<ValidUserResponse> {
    const { userId, sessionId, email, amr, expiresAt } = getPrincipal(request, 'user');
    const households = await this.memberships.listMemberships(userId);
    this.freshness.setHeaders(request, { expiresAt });
    const expires_at = expiresAt.toISOString();
    return { valid: true, user_id: userId, session_id: sessionId, email, expires_at, amr: [...amr], households };
  }
}
