/**
 * The user door: a bearer token that this service signed (RFC 6750, RFC 8725), of a live session of an active user. And the
 * route by which other services have such a token validated.
 */
import type { IncomingMessage } from 'node:http';
import { Injectable, Module, Post, Req } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import { ApiOperation, ApiProperty } from '@nestjs/swagger';
import { TypeOrmModule } from '@nestjs/typeorm';
import type { Request } from 'express';
import { Strategy } from 'passport-jwt';
import { readBearer, createRefusal, Doors } from '../../foundation/access/doors.js';
import { getPrincipal, type UserPrincipal } from '../../foundation/access/actor.js';
import { Answers, InternalController, RequireForwardedUser } from '../../foundation/access/require.js';
import { ID } from '../../foundation/common/fields.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { Environment } from '../../foundation/config/environment.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { Freshness, wantsFreshVerdict } from '../revocation/propagation.js';
import { SigningKeysModule } from '../signing-keys/signing-keys.module.js';
import {
  AccessTokens,
  hasPossibleTimes,
  isComplete,
  type AccessTokenClaims,
  type VerificationKey,
} from './access-tokens.js';
import { NewSessions } from './new-sessions.js';
import { Session, SessionsService } from './sessions.service.js';
import { RefreshTokens, TokenRotation } from './refresh-tokens.js';

type SecretCallback = (error: Error | null, secret?: string) => void;

@Injectable()
class UserStrategy extends PassportStrategy(Strategy, 'user') {
  constructor(
    doors: Doors,
    accessTokens: AccessTokens,
    freshness: Freshness,
    private readonly environment: Environment,
    private readonly sessions: SessionsService,
    private readonly clock: ComparedClock,
  ) {
    super({
      jwtFromRequest: readToken,
      // Passport calls it on the strategy. `this.error` answers 503, an error that is passed to `done` 401.
      secretOrKeyProvider: function (this: Strategy, request: Request, token: string, done: SecretCallback) {
        const use = (found: VerificationKey | undefined): void => {
          if (found) done(null, found.key as unknown as string);
          else done(new Error('not the header of a token of this service'));
        };
        const isFresh = wantsFreshVerdict(request);
        const find = () => accessTokens.findVerificationKey(token, isFresh);
        const found = isFresh ? freshness.noteArrival(request).then(find) : find();
        found.then(use, (error: unknown) => this.error(error as Error));
      },
      // jsonwebtoken refuses a public key for HS256, and a secret one for ES256, so the key decides which is accepted.
      algorithms: ['HS256', 'ES256'],
      issuer: environment.jwtIssuer,
      ...(environment.jwtAudience !== undefined && { audience: environment.jwtAudience }),
      // `validate` checks it, against the injected clock.
      ignoreExpiration: true,
    });
    doors.install('user', this);
  }

  async validate(claims: Partial<AccessTokenClaims>): Promise<UserPrincipal> {
    if (!isComplete(claims, this.environment.jwtAudience)) throw createRefusal('user', 'incomplete_claims');
    const { sub: userId, sid: sessionId, iss, jti, iat, exp } = claims;
    const now = this.clock.trustedNow();
    if (exp * 1_000 <= now.getTime()) throw createRefusal('user', 'expired', { user_id: userId });
    if (!hasPossibleTimes(claims, now, this.environment.accessTokenExpireMinutes)) {
      throw createRefusal('user', 'impossible_times', { user_id: userId });
    }
    const session = await this.sessions.findLiveSession(sessionId, userId);
    if (!session) throw createRefusal('user', 'session_ended', { user_id: userId, session_id: sessionId });
    const { email, amr, absolute_expires_at: sessionEnd } = session;
    const expiresAt = new Date(Math.min(exp * 1_000, sessionEnd.getTime()));
    return { door: 'user', userId, sessionId, email, amr, expiresAt, claims: { iss, jti, iat, exp } };
  }
}

/** Replaces the extractor of passport-jwt, which takes 150 ms for a header of 16 KB without a space. */
function readToken(request: IncomingMessage): string | null {
  return /^[\x21-\x7e]+$/.exec(readBearer(request) ?? '')?.[0] ?? null;
}

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
}

@InternalController()
class ValidateUserController {
  constructor(private readonly freshness: Freshness) {}

  @Post('validate-user')
  @RequireForwardedUser()
  @ApiOperation({
    summary: 'Validate the access token of a user',
    description:
      'Forward the Authorization header that a client sent, without a body. Unlike a check of the signature, it also ' +
      'finds sessions that have ended. If you also send your own app credential for this service, both must be valid.',
  })
  @Answers(200, ValidUserResponse)
  validateUser(@Req() request: Request): ValidUserResponse {
    const { userId, sessionId, email, amr, expiresAt } = getPrincipal(request, 'user');
    this.freshness.setHeaders(request, { expiresAt });
    const expires_at = expiresAt.toISOString();
    return { valid: true, user_id: userId, session_id: sessionId, email, expires_at, amr: [...amr] };
  }
}

@Module({
  imports: [TypeOrmModule.forFeature([Session]), SigningKeysModule],
  controllers: [ValidateUserController],
  providers: [AccessTokens, RefreshTokens, NewSessions, SessionsService, TokenRotation, UserStrategy],
  exports: [AccessTokens, NewSessions, SessionsService, TokenRotation],
})
export class TokensModule {}
