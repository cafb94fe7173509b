import type { IncomingMessage } from 'node:http';
import { Injectable } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import type { Request } from 'express';
import { Strategy } from 'passport-jwt';
import { readBearer, Doors, createRefusal } from '../access/doors.js';
import { Freshness, wantsFreshVerdict } from '../revocation/freshness.js';
import type { UserPrincipal } from '../access/principals.js';
import { Clock } from '../common/clock.js';
import { Environment } from '../config/environment.js';
import { hasPossibleTimes, isComplete, type AccessTokenClaims } from './access-tokens.js';
import { SessionsService } from './sessions.service.js';
import { TokenKeys, type VerificationKey } from './token-keys.js';

type SecretCallback = (error: Error | null, secret?: string) => void;

/** The user door: a bearer token that this service signed (RFC 6750, RFC 8725), of a live session of an active user. */
@Injectable()
export class UserStrategy extends PassportStrategy(Strategy, 'user') {
  constructor(
    doors: Doors,
    keys: TokenKeys,
    freshness: Freshness,
    private readonly environment: Environment,
    private readonly sessions: SessionsService,
    private readonly clock: Clock,
  ) {
    super({
      jwtFromRequest: readToken,
      // Passport calls it on the strategy: an error here is a 503, while one that is passed to `done` is a refusal.
      secretOrKeyProvider: function (this: Strategy, request: Request, token: string, done: SecretCallback) {
        const use = (found: VerificationKey | undefined): void => {
          if (found) done(null, found.key as unknown as string);
          else done(new Error('not the header of a token of this service'));
        };
        const isFresh = wantsFreshVerdict(request);
        const found = isFresh ? freshness.noteArrival(request).then(() => keys.find(token, isFresh)) : keys.find(token);
        found.then(use, (error: unknown) => this.error(error as Error));
      },
      // The key decides which of them: jsonwebtoken refuses a public key for HS256, and a secret one for ES256.
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
    const now = this.clock.now();
    if (exp * 1_000 <= now.getTime()) throw createRefusal('user', 'expired', { user_id: userId });
    if (!hasPossibleTimes(claims, now, this.environment.accessTokenExpireMinutes)) {
      throw createRefusal('user', 'impossible_times', { user_id: userId });
    }
    const session = await this.sessions.findLive(sessionId, userId);
    if (!session) throw createRefusal('user', 'session_ended', { user_id: userId, session_id: sessionId });
    const { email, amr, absolute_expires_at: sessionEnd } = session;
    const expiresAt = new Date(Math.min(exp * 1_000, sessionEnd.getTime()));
    return { door: 'user', userId, sessionId, email, amr, expiresAt, claims: { iss, jti, iat, exp } };
  }
}

/** Instead of the extractor of passport-jwt, which backtracks (16 KB without a space: 150 ms). */
function readToken(request: IncomingMessage): string | null {
  return /^[\x21-\x7e]+$/.exec(readBearer(request) ?? '')?.[0] ?? null;
}
