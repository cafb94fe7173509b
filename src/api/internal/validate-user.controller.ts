import { Post, Req } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import type { Request } from 'express';
import { Freshness } from '../../domain/revocation/freshness.js';
import { getPrincipal, requireHouseholds } from '../../foundation/access/principals.js';
import { InternalController, RequireForwardedUser } from '../../foundation/access/route-decorators.js';
import { ID } from '../../foundation/common/fields.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { ActField, ActResponse, toActResponse } from './delegation.dto.js';
import { HouseholdsField, type HouseholdOfUser } from './household.dto.js';

class ValidUserResponse {
  @ApiProperty({ enum: [true] }) valid!: true;
  @ApiProperty(ID) user_id!: string;
  @ApiProperty({ type: String, format: 'uuid', example: '01985f4e-80aa-7c11-8a3e-6f0b1f4f2a10' }) session_id!: string;
  @ApiPropertyOptional({
    type: String,
    format: 'email',
    description: 'absent for a delegated token',
    example: EXAMPLES.email,
  })
  email?: string;

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

  @HouseholdsField() households?: readonly HouseholdOfUser[];

  @ApiPropertyOptional({
    type: String,
    description: 'of a delegated token: the service that calls',
    example: 'recipes',
  })
  caller?: string;

  @ApiPropertyOptional({
    type: [String],
    description: 'of a delegated token: its scopes that the pair still has',
    example: [EXAMPLES.appScope],
  })
  scopes?: string[];

  @ActField() act?: ActResponse;
}

@InternalController()
export class ValidateUserController {
  constructor(private readonly freshness: Freshness) {}

  @Post('validate-user')
  @RequireForwardedUser({
    summary: 'Validate the access token of a user',
    description:
      'Forward the Authorization header that a client sent, without a body. Unlike a check of the signature, it also ' +
      'finds sessions that have ended, and names the households of the user. If you also send your own app credential for ' +
      'this service, both must be valid.',
    returns: ValidUserResponse,
  })
  validateUser(@Req() request: Request): ValidUserResponse {
    const principal = getPrincipal(request, 'user');
    const { userId, sessionId, email, amr, expiresAt, delegation } = principal;
    this.freshness.setHeaders(request, { expiresAt });
    const expires_at = expiresAt.toISOString();
    // One literal, because a spread takes 3 µs of every validation.
    if (!delegation) {
      const households = requireHouseholds(principal);
      return { valid: true, user_id: userId, session_id: sessionId, email, expires_at, amr: [...amr], households };
    }
    const identity = { valid: true as const, user_id: userId, session_id: sessionId, expires_at, amr: [...amr] };
    const { scopes, chain } = delegation;
    return { ...identity, caller: chain[0].service, scopes: [...scopes], act: toActResponse(chain) };
  }
}
