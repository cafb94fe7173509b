import { Injectable } from '@nestjs/common';
import { createRefusal } from '../../foundation/access/doors.js';
import type { UserPrincipal } from '../../foundation/access/principals.js';
import { isId } from '../../foundation/common/ids.js';
import { Environment } from '../../foundation/config/environment.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { AccessTokens, type AccessTokenClaims } from './access-tokens.js';
import { readMemberships } from './memberships.js';
import { SessionsService } from './sessions.service.js';

/** Tolerated difference between the clocks of the replica that signed and the one that verifies. */
export const CLOCK_TOLERANCE_SECONDS = 60;

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
   * @param withHouseholds as for {@link verifyClaims}
   * @throws {ProblemException} invalid_access_token
   */
  async verifyToken(token: string, { withHouseholds = false } = {}): Promise<UserPrincipal> {
    const claims = await this.accessTokens.verifySignature(token);
    if (!claims) throw createRefusal('user', 'not_accepted');
    return this.verifyClaims(claims, withHouseholds);
  }

  /**
   * @param claims the claims of a token whose signature was verified
   * @param withHouseholds reads the households of the user with the session
   * @throws {ProblemException} invalid_access_token
   */
  async verifyClaims(claims: Partial<AccessTokenClaims>, withHouseholds: boolean): Promise<UserPrincipal> {
    if (!hasRequiredClaims(claims, this.environment.jwtAudience)) throw createRefusal('user', 'incomplete_claims');
    const { sub: userId, sid: sessionId, iss, jti, iat, exp } = claims;
    const now = this.clock.trustedNow();
    if (exp * 1_000 <= now.getTime()) throw createRefusal('user', 'expired', { user_id: userId });
    if (!this.hasPossibleTimes(claims, now)) {
      await this.sessions.refuseSetBackClock(sessionId, now);
      throw createRefusal('user', 'impossible_times', { user_id: userId });
    }
    const session = await this.sessions.findLiveSession(sessionId, userId, withHouseholds);
    if (!session) throw createRefusal('user', 'session_ended', { user_id: userId, session_id: sessionId });
    const { email, amr, created_at: authenticatedAt, absolute_expires_at: sessionEnd, memberships } = session;
    const expiresAt = new Date(Math.min(exp * 1_000, sessionEnd.getTime()));
    const households = memberships === undefined ? undefined : readMemberships(memberships);
    const claimed = { iss, jti, iat, exp };
    return { door: 'user', userId, sessionId, email, amr, authenticatedAt, expiresAt, claims: claimed, households };
  }

  /**
   * Accepts an expired token, which may still end its session.
   * @returns undefined for a token that this service did not sign
   */
  async verifyTokenIgnoringExpiry(token: string): Promise<AccessTokenClaims | undefined> {
    const now = this.clock.trustedNow();
    const claims = await this.accessTokens.verifySignature(token);
    if (!claims || !hasRequiredClaims(claims, this.environment.jwtAudience)) return undefined;
    if (this.hasPossibleTimes(claims, now)) return claims;
    await this.sessions.refuseSetBackClock(claims.sid, now);
    return undefined;
  }

  /**
   * Whether this service could have signed a token with these times. Every service that verifies HS256 tokens has
   * SECRET_KEY, and must not be able to sign a token that outlives the configured TTL.
   */
  private hasPossibleTimes({ iat, exp }: AccessTokenClaims, now: Date): boolean {
    const latestIssue = now.getTime() / 1_000 + CLOCK_TOLERANCE_SECONDS;
    const isIssued = (iat as number | undefined) === undefined || iat <= latestIssue;
    return isIssued && exp <= latestIssue + this.environment.accessTokenExpireMinutes * 60;
  }
}

/** Without a configured audience, a token that has one is refused (RFC 7519 §4.1.3). */
function hasRequiredClaims(
  claims: Partial<AccessTokenClaims>,
  audience: string | undefined,
): claims is AccessTokenClaims {
  if (audience === undefined && claims.aud !== undefined) return false;
  return Number.isSafeInteger(claims.exp) && isIdClaim(claims.sub) && isIdClaim(claims.sid);
}

function isIdClaim(claim: unknown): boolean {
  return typeof claim === 'string' && isId(claim);
}
