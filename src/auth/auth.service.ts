/**
 * The flows of users: register, log in, refresh, log out.
 * Every refused login has the same response and the same cost, against user enumeration. Password guesses are reserved in
 * the login throttle before bcrypt runs, and settled after it. A reused refresh token ends its session before the refusal.
 */
import { Injectable } from '@nestjs/common';
import { createRefusal } from '../access/doors.js';
import { toUserActor, type Actor } from '../access/actor.js';
import { AuditLog } from '../audit/audit-log.js';
import { CountedRefusals } from '../audit/counted-refusals.js';
import type { RefusalReason } from '../common/security-events.js';
import { Propagation } from '../revocation/propagation.js';
import { ProblemException, type RefusalEvent, type Problem, problems } from '../problems/problems.js';
import { Environment } from '../config/environment.js';
import { Throttle } from '../throttling/throttle.js';
import { LoginThrottle } from '../throttling/guess-throttles.js';
import { AccessTokens, type TokenPair } from '../tokens/access-tokens.js';
import { NewSessions } from '../tokens/new-sessions.js';
import { SessionsService } from '../tokens/sessions.service.js';
import { TokenRotation } from '../tokens/token-rotation.js';
import { Registration } from '../users/registration.js';
import type { User } from '../users/users.service.js';
import { PasswordVerifier } from '../passwords/password-verifier.js';
import { SecondFactorLogin } from './second-factor-login.js';

interface RefusedLogin {
  readonly reason: RefusalReason<'user.login.failed'>;
  readonly userId?: string;
}

@Injectable()
export class AuthService {
  constructor(
    private readonly registration: Registration,
    private readonly passwords: PasswordVerifier,
    private readonly secondFactors: SecondFactorLogin,
    private readonly newSessions: NewSessions,
    private readonly sessions: SessionsService,
    private readonly rotation: TokenRotation,
    private readonly accessTokens: AccessTokens,
    private readonly audit: AuditLog,
    private readonly refusals: CountedRefusals,
    private readonly loginThrottle: LoginThrottle,
    private readonly throttle: Throttle,
    private readonly propagation: Propagation,
    private readonly environment: Environment,
  ) {}

  /** @throws {ProblemException} registration_closed; too_many_requests; validation_failed; email_taken; hashing_busy */
  async register(email: string, password: string, actor: Actor): Promise<User> {
    if (this.environment.registration === 'closed') throw new ProblemException(problems.registrationClosed);
    const { address } = actor;
    await this.throttle.refuseBusyNetwork('user.registration.throttled', address);
    try {
      return await this.registration.registerUser({ email, password, actor, event: 'user.registered' });
    } catch (error) {
      this.throttle.countBusyRefusal(error, address);
      throw error;
    }
  }

  /**
   * @throws {ProblemException} invalid_credentials, the same for every reason; email_not_verified and
   * second_factor_required after the right password; too_many_requests; hashing_busy
   */
  async logIn(email: string, password: string, actor: Actor): Promise<TokenPair> {
    const verdict = await this.loginThrottle.countPasswordGuess(email, actor.address, (turn) =>
      this.passwords.verifyPassword(email, password, turn),
    );
    if (!verdict.valid) return this.refuseLogin(email, verdict, actor);
    const { id: userId } = verdict.user;
    if (this.environment.requireVerifiedEmail && verdict.user.emailVerifiedAt === null)
      return this.refuseLogin(email, { reason: 'email_not_verified', userId }, actor, problems.emailNotVerified);
    if (verdict.user.hasSecondFactor) return this.secondFactors.refuseWithChallenge(verdict.user);
    const sign = await this.accessTokens.prepareSigning();
    const grant = await this.newSessions.startSession({
      owner: verdict.user,
      actor: toUserActor(actor, userId),
      amr: ['pwd'],
    });
    if (grant) return sign(grant);
    await this.secondFactors.refuseIfAdded(verdict.user);
    return this.refuseLogin(email, { reason: 'changed_meanwhile', userId }, actor);
  }

  /** @throws {ProblemException} invalid_refresh_token, after the end of a reused session is committed */
  async refresh(refreshToken: string, actor: Actor): Promise<TokenPair> {
    const result = await this.rotation.rotateRefreshToken(refreshToken, actor);
    if ('grant' in result) {
      const { userId, sessionId } = result.grant;
      const logFields = { user_id: userId, session_id: sessionId, reason: result.outcome };
      this.audit.logOnly('session.refreshed', actor, logFields);
      return this.accessTokens.signTokenPair(result.grant);
    }
    const event: RefusalEvent =
      result.outcome === 'reused'
        ? {
            event: 'session.refresh.reused',
            reason: 'reused',
            fields: { session_id: result.sessionId, user_id: result.userId },
          }
        : { event: 'session.refresh.refused', reason: result.reason };
    throw new ProblemException(problems.invalidRefreshToken, { refusal: event });
  }

  /**
   * Ends the session of the refresh token, of the access token, or of both. Idempotent: a session that has ended, or
   * never existed, is a success too. When it has returned, no verifier accepts a token of the session.
   * @throws {ProblemException} nothing_to_log_out; invalid_access_token for a lone bearer that this service did not sign
   */
  async logOut(refreshToken: string | undefined, bearer: string | undefined, actor: Actor): Promise<void> {
    if (refreshToken === undefined && bearer === undefined) throw new ProblemException(problems.nothingToLogOut);
    const claims = bearer === undefined ? undefined : await this.accessTokens.verifyIgnoringExpiry(bearer);
    // A valid refresh token ends its session even when the bearer beside it is invalid.
    if (refreshToken === undefined && !claims) throw createRefusal('user', 'foreign_token');
    const isRefreshToken =
      refreshToken !== undefined && (await this.sessions.endSessionByRefreshToken(refreshToken, actor));
    if (claims) await this.sessions.endSessionByLogout(claims.sid, claims.sub, actor);
    if (isRefreshToken || claims) await this.propagation.awaitPropagation();
  }

  private async refuseLogin(
    email: string,
    { reason, userId }: RefusedLogin,
    actor: Actor,
    problem: Problem = problems.invalidCredentials,
  ): Promise<never> {
    const refusal = { event: 'user.login.failed', reason, fields: { user_id: userId } } as const;
    throw await this.refusals.recordRefusal({ problem, refusal, counted: email, subject: userId }, actor);
  }
}
