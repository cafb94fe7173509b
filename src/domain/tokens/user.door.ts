import { Injectable } from '@nestjs/common';
import { createRefusal } from '../../foundation/access/doors.js';
import type { UserPrincipal } from '../../foundation/access/principals.js';
import { Environment } from '../../foundation/config/environment.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { AccessTokens, hasPossibleTimes, hasRequiredClaims, type AccessTokenClaims } from './access-tokens.js';
import { SessionsService } from './sessions.service.js';

/** The user door: a token that this service signed (RFC 8725), for a live session of an active user. */
@Injectable()
export class UserDoor {
  constructor(
    private readonly accessTokens: AccessTokens,
    private readonly environment: Environment,
    private readonly sessions: SessionsService,
    private readonly clock: ComparedClock,
  ) {}

  /**
   * Verifies a token that the strategy did not read: one from a body, or one that does not authenticate its request.
   * @throws {ProblemException} invalid_access_token
   */
  async verifyToken(token: string): Promise<UserPrincipal> {
    const claims = await this.accessTokens.verifySignature(token);
    if (!claims) throw createRefusal('user', 'not_accepted');
    return this.verifyClaims(claims);
  }

  /**
   * @param claims the claims of a token whose signature was verified
   * @throws {ProblemException} invalid_access_token
   */
  async verifyClaims(claims: Partial<AccessTokenClaims>): Promise<UserPrincipal> {
    if (!hasRequiredClaims(claims, this.environment.jwtAudience)) throw createRefusal('user', 'incomplete_claims');
    const { sub: userId, sid: sessionId, iss, jti, iat, exp } = claims;
    const now = this.clock.trustedNow();
    if (exp * 1_000 <= now.getTime()) throw createRefusal('user', 'expired', { user_id: userId });
    if (!hasPossibleTimes(claims, now, this.environment.accessTokenExpireMinutes)) {
      throw createRefusal('user', 'impossible_times', { user_id: userId });
    }
    const session = await this.sessions.findLiveSession(sessionId, userId);
    if (!session) throw createRefusal('user', 'session_ended', { user_id: userId, session_id: sessionId });
    const { email, amr, created_at: authenticatedAt, absolute_expires_at: sessionEnd } = session;
    const expiresAt = new Date(Math.min(exp * 1_000, sessionEnd.getTime()));
    const claimed = { iss, jti, iat, exp };
    return { door: 'user', userId, sessionId, email, amr, authenticatedAt, expiresAt, claims: claimed };
  }
}
