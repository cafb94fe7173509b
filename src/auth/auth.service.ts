/**
 * What is open to every client besides logins (login.ts): registration, and the refresh and the end of a session.
 * Invariant: a reused refresh token ends its session, and that is committed before the refusal leaves.
 */
import { Injectable } from '@nestjs/common';
import type { Actor } from '../access/actor.js';
import { createRefusal } from '../access/doors.js';
import { AuditLog } from '../audit/audit-log.js';
import { Environment } from '../config/environment.js';
import { ProblemException, problems, type RefusalEvent } from '../problems/problems.js';
import { Propagation } from '../revocation/propagation.js';
import { Throttle } from '../throttling/throttle.js';
import { AccessTokens, type TokenPair } from '../tokens/access-tokens.js';
import { SessionsService } from '../tokens/sessions.service.js';
import { TokenRotation } from '../tokens/token-rotation.js';
import { Registration } from '../users/registration.js';
import type { User } from '../users/users.service.js';

@Injectable()
export class RegistrationService {
  constructor(
    private readonly registration: Registration,
    private readonly throttle: Throttle,
    private readonly environment: Environment,
  ) {}

  /** @throws {ProblemException} registration_closed; too_many_requests; validation_failed; email_taken; hashing_busy */
  async register(
    { email, password }: { readonly email: string; readonly password: string },
    actor: Actor,
  ): Promise<User> {
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
}

@Injectable()
export class AuthService {
  constructor(
    private readonly sessions: SessionsService,
    private readonly rotation: TokenRotation,
    private readonly accessTokens: AccessTokens,
    private readonly audit: AuditLog,
    private readonly propagation: Propagation,
  ) {}

  /** @throws {ProblemException} invalid_refresh_token, after the end of a reused session is committed */
  async refreshSession(refreshToken: string, actor: Actor): Promise<TokenPair> {
    const result = await this.rotation.rotateRefreshToken(refreshToken, actor);
    if ('grant' in result) {
      const { userId, sessionId } = result.grant;
      const logFields = { user_id: userId, session_id: sessionId, reason: result.outcome };
      this.audit.logOnly('session.refreshed', actor, logFields);
      return this.accessTokens.signTokenPair(result.grant);
    }
    const refusal: RefusalEvent =
      result.outcome === 'reused'
        ? {
            event: 'session.refresh.reused',
            reason: 'reused',
            fields: { session_id: result.sessionId, user_id: result.userId },
          }
        : { event: 'session.refresh.refused', reason: result.reason };
    throw new ProblemException(problems.invalidRefreshToken, { refusal });
  }

  /**
   * Ends the session of the refresh token, of the access token, or of both. Idempotent: a session that has ended, or
   * never existed, is a success too. When it has returned, no verifier accepts a token of the session.
   * @throws {ProblemException} nothing_to_log_out; invalid_access_token for a lone bearer that this service did not sign
   */
  async logOut(
    { refreshToken, bearer }: { readonly refreshToken: string | undefined; readonly bearer: string | undefined },
    actor: Actor,
  ): Promise<void> {
    if (refreshToken === undefined && bearer === undefined) throw new ProblemException(problems.nothingToLogOut);
    const claims = bearer === undefined ? undefined : await this.accessTokens.verifyIgnoringExpiry(bearer);
    // A valid refresh token ends its session even when the bearer beside it is invalid.
    if (refreshToken === undefined && !claims) throw createRefusal('user', 'foreign_token');
    const isRefreshToken =
      refreshToken !== undefined && (await this.sessions.endSessionByRefreshToken(refreshToken, actor));
    if (claims) await this.sessions.endSessionByLogout(claims.sid, claims.sub, actor);
    // Text that is not a token cannot have ended a session, also not in an earlier call.
    if (isRefreshToken || claims) await this.propagation.awaitPropagation();
  }
}
