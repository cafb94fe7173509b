/**
 * The user door: a bearer token that this service signed (RFC 6750, RFC 8725), of a live session of an active user.
 */
import type { IncomingMessage } from 'node:http';
import { Injectable } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import type { Request } from 'express';
import { Strategy } from 'passport-jwt';
import { readBearer, createRefusal, Doors } from '../../foundation/access/doors.js';
import { type UserPrincipal } from '../../foundation/access/actor.js';
import { Environment } from '../../foundation/config/environment.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { Freshness, wantsFreshVerdict } from '../revocation/propagation.js';
import {
  AccessTokens,
  hasPossibleTimes,
  isComplete,
  type AccessTokenClaims,
  type VerificationKey,
} from './access-tokens.js';
import { SessionsService } from './sessions.service.js';

type SecretCallback = (error: Error | null, secret?: string) => void;

@Injectable()
export class UserStrategy extends PassportStrategy(Strategy, 'user') {
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
