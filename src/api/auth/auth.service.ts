import { Injectable } from '@nestjs/common';
import { Propagation } from '../../domain/revocation/propagation.js';
import { AccessTokens, type TokenPair } from '../../domain/tokens/access-tokens.js';
import { UserDoor } from '../../domain/tokens/user.door.js';
import { TokenRotation } from '../../domain/tokens/refresh-tokens.js';
import { SessionsService } from '../../domain/tokens/sessions.service.js';
import type { Actor } from '../../foundation/access/actor.js';
import { createRefusal } from '../../foundation/access/doors.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';

@Injectable()
export class AuthService {
  constructor(
    private readonly sessions: SessionsService,
    private readonly rotation: TokenRotation,
    private readonly accessTokens: AccessTokens,
    private readonly userDoor: UserDoor,
    private readonly propagation: Propagation,
  ) {}

  async refreshSession(refreshToken: string, actor: Actor): Promise<TokenPair> {
    return this.accessTokens.signTokenPair(await this.rotation.rotateRefreshToken(refreshToken, actor));
  }

  /**
   * Ends the session of the refresh token, of the access token, or of both; when it has returned, no verifier accepts a
   * token of the session. Idempotent: it also succeeds for a session that has ended or never existed.
   */
  async logOut(refreshToken: string | undefined, bearer: string | undefined, actor: Actor): Promise<void> {
    if (refreshToken === undefined && bearer === undefined) throw new ProblemException(problems.nothingToLogOut);
    const claims = bearer === undefined ? undefined : await this.userDoor.verifyTokenIgnoringExpiry(bearer);
    // A valid refresh token ends its session even when the bearer beside it is invalid.
    if (refreshToken === undefined && !claims) throw createRefusal('user', 'foreign_token');
    const isRefreshToken =
      refreshToken !== undefined && (await this.rotation.endSessionByRefreshToken(refreshToken, actor));
    if (claims) await this.sessions.endSessionByLogout(claims.sid, claims.sub, actor);
    // Waits even when the session had ended before: the earlier call may have been aborted during its wait. Text that
    // is not a token cannot have ended a session.
    if (isRefreshToken || claims) await this.propagation.awaitPropagation();
  }
}
