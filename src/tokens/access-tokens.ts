import { Injectable } from '@nestjs/common';
import { JwtService } from '@nestjs/jwt';
import { Clock } from '../common/clock.js';
import { isId, createRandomId } from '../common/ids.js';
import { Environment } from '../config/environment.js';
import type { Amr, Grant } from './grant.js';
import { TokenKeys, type SigningOptions } from './token-keys.js';

/** The claims of an access token (RFC 7519 §4.1). */
export interface AccessTokenClaims {
  readonly iss: string;
  readonly aud?: string;
  readonly sub: string;
  readonly sid: string;
  readonly jti: string;
  readonly iat: number;
  readonly exp: number;
  readonly email: string;
  /** RFC 8176. Tokens of versions before this claim have none. */
  readonly amr?: Amr;
}

/** Tolerated difference between the clocks of the replica that signed and the one that verifies. */
const CLOCK_TOLERANCE_SECONDS = 60;

/**
 * Whether a payload has the claims that this service relies on, in the form in which it signs them.
 * @param audience the configured one; without one, a token with an audience is refused (RFC 7519 §4.1.3)
 */
export function isComplete(
  claims: Partial<AccessTokenClaims>,
  audience: string | undefined,
): claims is AccessTokenClaims {
  if (audience === undefined && claims.aud !== undefined) return false;
  return Number.isSafeInteger(claims.exp) && isIdClaim(claims.sub) && isIdClaim(claims.sid);
}

/**
 * Whether this service could have signed a token with these times. Every service that verifies HS256 tokens holds
 * SECRET_KEY, and must not be able to sign itself a token that outlives the configured TTL.
 */
export function hasPossibleTimes({ iat, exp }: AccessTokenClaims, now: Date, ttlMinutes: number): boolean {
  const latestIssue = now.getTime() / 1_000 + CLOCK_TOLERANCE_SECONDS;
  return exp <= latestIssue + ttlMinutes * 60 && ((iat as number | undefined) === undefined || iat <= latestIssue);
}

function isIdClaim(claim: unknown): boolean {
  return typeof claim === 'string' && isId(claim);
}

/** What the client gets for a grant. */
export interface TokenPair {
  readonly accessToken: string;
  readonly refreshToken: string;
  readonly ttlSeconds: number;
}

/** Signs access tokens, and verifies them for the logout. The user door verifies in user.strategy.ts. */
@Injectable()
export class AccessTokens {
  private readonly ttlSeconds: number;

  constructor(
    private readonly jwt: JwtService,
    private readonly keys: TokenKeys,
    private readonly environment: Environment,
    private readonly clock: Clock,
  ) {
    this.ttlSeconds = environment.accessTokenExpireMinutes * 60;
  }

  /** @throws {ProblemException} unavailable */
  async signPair(grant: Grant): Promise<TokenPair> {
    return (await this.createSigner())(grant);
  }

  /**
   * Does the part of signing that can fail, so that a caller can do it before it commits what the token is for.
   * @throws {ProblemException} unavailable
   */
  async createSigner(): Promise<(grant: Grant) => TokenPair> {
    const options = await this.keys.getSigningOptions();
    return (grant) => ({
      accessToken: this.sign(grant, options),
      refreshToken: grant.refreshToken,
      ttlSeconds: this.ttlSeconds,
    });
  }

  /**
   * Verifies a token that may have expired: an expired one may still end its session.
   * @returns undefined for a token that this service did not sign, or could not have signed by now
   * @throws {ProblemException} unavailable
   */
  async verifyIgnoringExpiry(token: string): Promise<AccessTokenClaims | undefined> {
    const found = await this.keys.find(token);
    if (!found) return undefined;
    const { key, algorithm } = found;
    try {
      const options = toJwtOptions({ secret: key, algorithms: [algorithm], ignoreExpiration: true });
      const claims = this.jwt.verify<Partial<AccessTokenClaims>>(token, options);
      const { jwtAudience, accessTokenExpireMinutes } = this.environment;
      if (!isComplete(claims, jwtAudience)) return undefined;
      return hasPossibleTimes(claims, this.clock.now(), accessTokenExpireMinutes) ? claims : undefined;
    } catch {
      return undefined;
    }
  }

  private sign({ userId, sessionId, email, amr }: Grant, options: SigningOptions): string {
    const { jwtIssuer, jwtAudience } = this.environment;
    const iat = Math.floor(this.clock.now().getTime() / 1_000);
    const exp = iat + this.ttlSeconds;
    const claims: AccessTokenClaims = {
      iss: jwtIssuer,
      sub: userId,
      sid: sessionId,
      jti: createRandomId(),
      iat,
      exp,
      email,
      amr,
    };
    return this.jwt.sign({ ...claims, ...(jwtAudience !== undefined && { aud: jwtAudience }) }, toJwtOptions(options));
  }
}

/** jsonwebtoken takes a `KeyObject`, imported once and not at every signature; the types of @nestjs/jwt say text. */
function toJwtOptions<Options extends { secret: unknown }>(
  options: Options,
): Omit<Options, 'secret'> & { secret: string } {
  return options as Omit<Options, 'secret'> & { secret: string };
}
