import { Injectable } from '@nestjs/common';
import { createRefusal } from '../access/doors.js';
import { asUser, type Actor } from '../audit/actor.js';
import { CountedRefusals } from '../audit/counted-refusals.js';
import { ProblemException, type RefusalEvent } from '../common/problem.exception.js';
import { problems } from '../common/problems.js';
import { Environment } from '../config/environment.js';
import { BusyThrottle } from '../throttling/busy-throttle.js';
import { LoginThrottle } from '../throttling/login-throttle.js';
import { AccessTokens } from '../tokens/access-tokens.js';
import { SessionsService, type EndedSession, type Grant, type StartedSession } from '../tokens/sessions.service.js';
import { TokenRotation, type RefreshOutcome } from '../tokens/token-rotation.js';
import type { User } from '../users/user.entity.js';
import { UsersService, type PasswordVerdict } from '../users/users.service.js';

/** `repeated`, `repeated_elsewhere`: the response to the first try was lost, and this is the same one again. */
export type Refreshed = Extract<RefreshOutcome, { grant: Grant }>;

type RefusedPassword = Extract<PasswordVerdict, { valid: false }>;

/** Register, log in, refresh, log out: the flows over users and sessions. */
@Injectable()
export class AuthService {
  constructor(
    private readonly users: UsersService,
    private readonly sessions: SessionsService,
    private readonly rotation: TokenRotation,
    private readonly accessTokens: AccessTokens,
    private readonly refusals: CountedRefusals,
    private readonly throttle: LoginThrottle,
    private readonly busy: BusyThrottle,
    private readonly environment: Environment,
  ) {}

  /** @throws {ProblemException} registration_closed; too_many_requests; validation_failed; email_taken; hashing_busy */
  async register(email: string, password: string, actor: Actor): Promise<User> {
    if (!this.environment.registrationOpen) throw new ProblemException(problems.registrationClosed);
    const address = actor.address ?? undefined;
    await this.busy.refuseExhausted('user.registration.throttled', address);
    try {
      return await this.users.register(email, password, actor, 'user.registered');
    } catch (error) {
      this.busy.count(error, address);
      throw error;
    }
  }

  /** @throws {ProblemException} invalid_credentials, the same for every reason; too_many_requests; hashing_busy */
  async logIn(email: string, password: string, actor: Actor): Promise<StartedSession> {
    const { address } = actor;
    const attempt = await this.throttle.begin(email, address ?? undefined);
    const verdict = await this.users.verifyPassword(email, password, attempt.turn).catch(async (error: unknown) => {
      await attempt.refund(error);
      throw error;
    });
    await attempt.settle(verdict.valid);
    if (!verdict.valid) throw await this.loginRefused(email, verdict, actor);
    const { id: userId } = verdict.user;
    const grant = await this.sessions.start(userId, verdict.user.email, asUser(actor, userId));
    if (!grant) throw await this.loginRefused(email, { valid: false, reason: 'disabled', userId }, actor);
    return grant;
  }

  /** @throws {ProblemException} invalid_refresh_token, after whatever had to be revoked is committed */
  async refresh(refreshToken: string, actor: Actor): Promise<Refreshed> {
    const result = await this.rotation.refresh(refreshToken, actor);
    if ('grant' in result) return result;
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
   * Ends the session of the refresh token, of the access token, or of both. What has ended already, or never was,
   * needs no ending.
   * @returns the sessions that ended
   * @throws {ProblemException} nothing_to_log_out; invalid_access_token for nothing but a bearer that this service never signed
   */
  async logOut(refreshToken: string | undefined, bearer: string | undefined, actor: Actor): Promise<EndedSession[]> {
    if (refreshToken === undefined && bearer === undefined) throw new ProblemException(problems.nothingToLogOut);
    const claims = bearer === undefined ? undefined : this.accessTokens.readExpired(bearer);
    // A good refresh token is not spoilt by what else was sent: its session must end.
    if (refreshToken === undefined && !claims) throw createRefusal('user', 'foreign_token');
    const ended = [
      refreshToken === undefined ? undefined : await this.sessions.endByRefreshToken(refreshToken, actor),
      claims && (await this.sessions.end({ sessionId: claims.sid, userId: claims.sub }, 'logout', actor)),
    ];
    return ended.filter((session) => session !== undefined);
  }

  private async loginRefused(email: string, verdict: RefusedPassword, actor: Actor): Promise<ProblemException> {
    const { reason, userId } = verdict;
    await this.refusals.count({ event: 'user.login.failed', reason, counted: email, subject: userId }, actor);
    const event: RefusalEvent = { event: 'user.login.failed', reason, fields: { user_id: userId } };
    return new ProblemException(problems.invalidCredentials, { refusal: event });
  }
}
