import { Injectable } from '@nestjs/common';
import { refusal } from '../access/doors.js';
import { ProblemException, type RefusalEvent } from '../common/problem.exception.js';
import { problems } from '../common/problems.js';
import { Environment } from '../config/environment.js';
import { LoginThrottle } from '../throttling/login-throttle.js';
import { AccessTokens } from '../tokens/access-tokens.js';
import { SessionsService, type Grant, type RefreshOutcome } from '../tokens/sessions.service.js';
import type { User } from '../users/user.entity.js';
import { UsersService, type PasswordVerdict } from '../users/users.service.js';

export interface EndedSession {
  readonly sessionId: string;
  readonly userId: string;
}

/** `repeated`: the answer to the first try was lost, and this is the same one again. */
export type Refreshed = Extract<RefreshOutcome, { grant: Grant }>;

/** Register, log in, refresh, log out: the flows over users and sessions. */
@Injectable()
export class AuthService {
  constructor(
    private readonly users: UsersService,
    private readonly sessions: SessionsService,
    private readonly accessTokens: AccessTokens,
    private readonly throttle: LoginThrottle,
    private readonly environment: Environment,
  ) {}

  /** @throws {ProblemException} registration_closed; validation_failed; email_taken; hashing_busy */
  async register(email: string, password: string): Promise<User> {
    if (!this.environment.registrationOpen) throw new ProblemException(problems.registrationClosed);
    return this.users.register(email, password);
  }

  /**
   * @param address the caller's, for the throttle
   * @throws {ProblemException} invalid_credentials, the same for every reason; too_many_requests; hashing_busy
   */
  async logIn(email: string, password: string, address: string | undefined): Promise<Grant> {
    const verdict = await this.throttle.guess(email, address, () => this.users.verifyPassword(email, password));
    if (!verdict.valid) throw loginRefused(verdict);
    const grant = await this.sessions.start(verdict.user.id, verdict.user.email);
    if (!grant) throw loginRefused({ valid: false, reason: 'disabled', userId: verdict.user.id });
    return grant;
  }

  /** @throws {ProblemException} invalid_refresh_token, after whatever had to be revoked is committed */
  async refresh(refreshToken: string): Promise<Refreshed> {
    const result = await this.sessions.refresh(refreshToken);
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
   * @throws {ProblemException} nothing_to_log_out; invalid_access_token for a bearer that this service never signed
   */
  async logOut(refreshToken: string | undefined, bearer: string | undefined): Promise<EndedSession[]> {
    if (refreshToken === undefined && bearer === undefined) throw new ProblemException(problems.nothingToLogOut);
    const claims = bearer === undefined ? undefined : this.accessTokens.readExpired(bearer);
    if (bearer !== undefined && !claims) throw refusal('user', 'foreign_token');
    const ended = [
      refreshToken === undefined ? undefined : await this.sessions.endByRefreshToken(refreshToken),
      claims && (await this.sessions.end(claims.sid, 'logout')),
    ];
    return ended.filter((session) => session !== undefined);
  }
}

function loginRefused({ reason, userId }: Extract<PasswordVerdict, { valid: false }>): ProblemException {
  const event: RefusalEvent = { event: 'user.login.failed', reason, fields: { user_id: userId } };
  return new ProblemException(problems.invalidCredentials, { refusal: event });
}
