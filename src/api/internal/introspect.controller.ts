/**
 * Introspection of access tokens (RFC 7662), for software that speaks OAuth 2.0. The caller presents its app credential
 * in the platform's headers or as HTTP Basic.
 */
import { HttpCode, Post, Req } from '@nestjs/common';
import {
  ApiBody,
  ApiConsumes,
  ApiOkResponse,
  ApiOperation,
  ApiProperty,
  ApiPropertyOptional,
  ApiSecurity,
} from '@nestjs/swagger';
import type { Request } from 'express';
import { getPrincipal, requireHouseholds, type UserPrincipal } from '../../foundation/access/principals.js';
import { InternalController, RequireWith } from '../../foundation/access/route-decorators.js';
import { Declares } from '../../foundation/access/route-declarations.js';
import { ID } from '../../foundation/common/fields.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { DelegatedDoor } from '../../domain/delegation/delegated.door.js';
import { UserDoor } from '../../domain/tokens/user.door.js';
import { MAX_TEXT_LENGTH } from '../../foundation/http/validation.js';
import { ProblemException, refuseField } from '../../foundation/problems/problems.js';
import { ActField, ActResponse, toActResponse } from './delegation.dto.js';
import { HouseholdsField, type HouseholdOfUser } from './household.dto.js';
import { OAuthClientGuard, readForm } from './oauth-client.guard.js';

/** Only for the OpenAPI document: the form is parsed after authentication. */
class IntrospectionBody {
  @ApiProperty({
    type: String,
    maxLength: MAX_TEXT_LENGTH,
    example: 'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.c2lnbmF0dXJl',
  })
  token!: string;

  @ApiPropertyOptional({ type: String, description: 'ignored', maxLength: MAX_TEXT_LENGTH, example: 'access_token' })
  token_type_hint?: string;
}

class ActiveTokenResponse {
  @ApiProperty({ example: true }) active!: boolean;
  @ApiPropertyOptional({ type: String, format: 'uuid', description: 'the user', example: EXAMPLES.id }) sub!: string;
  @ApiPropertyOptional({ type: String, format: 'uuid', description: 'the session', example: EXAMPLES.id }) sid!: string;
  @ApiPropertyOptional({ type: 'integer', example: 1_763_769_600 }) exp!: number;
  @ApiPropertyOptional({ type: 'integer', example: 1_763_768_700 }) iat!: number;
  @ApiPropertyOptional({ type: String, example: 'platform-auth' }) iss!: string;
  @ApiPropertyOptional(ID) jti!: string;
  @ApiPropertyOptional({ enum: ['Bearer'] }) token_type!: 'Bearer';
  @ApiPropertyOptional({ type: String, description: 'the e-mail address', example: EXAMPLES.email }) username?: string;

  @ApiPropertyOptional({
    type: [String],
    description: 'how the user authenticated at the login (RFC 8176)',
    example: ['pwd', 'otp', 'mfa'],
  })
  amr!: string[];

  @ApiPropertyOptional({
    type: 'integer',
    description: 'when the user logged in (OpenID Connect Core §2), which a refresh does not change',
    example: 1_763_768_000,
  })
  auth_time!: number;

  @HouseholdsField() households?: readonly HouseholdOfUser[];

  @ApiPropertyOptional({ type: String, description: 'of a delegated token: the service it is for', example: 'recipes' })
  aud?: string;

  @ApiPropertyOptional({ ...ID, description: 'of a delegated token: the pair of its caller' })
  client_id?: string;

  @ApiPropertyOptional({ type: String, description: 'of a delegated token', example: EXAMPLES.appScope })
  scope?: string;

  @ActField() act?: ActResponse;
}

/** @throws {ProblemException} malformed_request; validation_failed without exactly one token, or with a too long one */
function readIntrospectedToken(body: Buffer | undefined): string {
  const form = readForm(body, ['token', 'token_type_hint']);
  const [token, ...more] = form.getAll('token');
  if (token && more.length === 0) return token;
  return refuseField('/token', 'must be sent once, and not be empty');
}

@InternalController()
export class IntrospectController {
  constructor(
    private readonly door: UserDoor,
    private readonly delegatedDoor: DelegatedDoor,
  ) {}

  @Post('introspect')
  @HttpCode(200)
  @RequireWith(OAuthClientGuard, 'app')
  @Declares({ body: 'form', countedAs: ['validations'] })
  @ApiSecurity('app_basic')
  @ApiOperation({
    summary: 'Introspect an access token (RFC 7662)',
    description:
      'For software that speaks OAuth 2.0. The app credential for this service is sent in its headers, or as HTTP Basic ' +
      '(`app_id:app_key`). The one verdict that is a 200: `active` is false for every other token, refresh tokens too, and a delegated token that is for another service.',
  })
  @ApiConsumes('application/x-www-form-urlencoded')
  @ApiBody({ type: IntrospectionBody })
  @ApiOkResponse({ type: ActiveTokenResponse, description: 'Or `{"active": false}`' })
  async introspectToken(@Req() request: Request): Promise<ActiveTokenResponse | { readonly active: false }> {
    const { caller } = getPrincipal(request, 'app');
    const principal = await this.authenticateUser(readIntrospectedToken(request.body as Buffer | undefined), caller);
    if (!principal) return { active: false };
    const { userId, sessionId, email, amr, authenticatedAt, claims, delegation } = principal;
    const { exp, iat, iss, jti } = claims;
    const token = { exp, iat, iss, jti, token_type: 'Bearer' as const };
    const authentication = { amr: [...amr], auth_time: Math.floor(authenticatedAt.getTime() / 1_000) };
    const identity = { active: true, sub: userId, sid: sessionId, ...token, ...authentication };
    if (delegation) {
      const { scopes, chain } = delegation;
      const scope = scopes.join(' ');
      return { ...identity, aud: caller, client_id: chain[0].appId, scope, act: toActResponse(chain) };
    }
    return { ...identity, username: email, households: requireHouseholds(principal) };
  }

  /** Logs no refusal, because an inactive token is an answer to the caller and not an attempt at the user door. */
  private async authenticateUser(token: string, caller: string): Promise<UserPrincipal | undefined> {
    if (/\s/.test(token)) return undefined;
    try {
      return await (this.delegatedDoor.isDelegated(token)
        ? this.delegatedDoor.verifyDelegated(token, caller)
        : this.door.verifyToken(token, { withHouseholds: true }));
    } catch (error) {
      if (error instanceof ProblemException && error.problem.status === 401) return undefined;
      throw error;
    }
  }
}
