/**
 * Signs access tokens with SECRET_KEY (HS256) or a signing key (ES256), and finds the key that verifies a token. The
 * user door judges the claims (user.door.ts). Invariant: the exact text of a token's header determines its algorithm
 * and its key, which rules out `alg: none`, `jwk`, `jku` and `crit` (RFC 8725 §3.1).
 */
import { Injectable } from '@nestjs/common';
import { JwtService } from '@nestjs/jwt';
import { createRandomId } from '../../foundation/common/ids.js';
import { Environment } from '../../foundation/config/environment.js';
import { DELEGATED_SUFFIX } from '../../foundation/config/limits.js';
import type { KeyPair } from '../../foundation/crypto/key-pair.js';
import { computeMac, createSigningKey, isSameDigest } from '../../foundation/crypto/secret.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { SigningKeysService } from '../signing-keys/signing-keys.service.js';

type Key = KeyPair['publicKey'];

/** `{"alg":"HS256","typ":"JWT"}`: the header of every HS256 token that this service signs. */
const HS256_HEADER = 'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.';
/** Headers of ES256 tokens differ in their type, and in their `kid`. */
type TokenType = 'JWT' | 'at+jwt';
/** The type of delegated tokens (RFC 9068 §2.1). */
const DELEGATED_TYPE = 'at+jwt';
const KID = /"kid":"(?<kid>[\w-]{43})"\}$/;
/** A multiple of three bytes, so that each delegated token begins with this text. */
const DELEGATED_START = Buffer.from(`{"alg":"ES256","typ":"${DELEGATED_TYPE}",`).toString('base64url');
const ES256_HEADER_LENGTHS = {
  JWT: encodeEs256Header('x'.repeat(43), 'JWT').length,
  [DELEGATED_TYPE]: encodeEs256Header('x'.repeat(43), DELEGATED_TYPE).length,
};
/** The encoded `{"`, because the payload is a JSON object. */
const PAYLOAD_START = 'eyJ';

export interface AccessTokenClaims {
  readonly iss: string;
  readonly aud?: string;
  readonly sub: string;
  readonly sid: string;
  readonly jti: string;
  readonly iat: number;
  readonly exp: number;
  readonly email: string;
  /** Not required, because the user door reads it from the session. */
  readonly amr?: Amr;
}

/** A service that passed the user on, with the pair that allowed it; `act` is the one before (RFC 8693 §4.1). */
export interface ActClaim {
  readonly sub: string;
  readonly client_id: string;
  readonly act?: ActClaim;
}

export interface DelegatedClaims extends Omit<AccessTokenClaims, 'email' | 'amr'> {
  readonly aud: string;
  readonly client_id: string;
  readonly act: ActClaim;
  /** The revision of the pair of each link of `act`, the caller first: a private claim, which only this service reads. */
  readonly revisions: readonly number[];
  readonly scope: string;
}

/** How a user authenticated at a login (RFC 8176). */
export type Amr = readonly string[];

/** The result of a login or a refresh, for which an access token is signed. */
export interface Grant {
  readonly sessionId: string;
  readonly userId: string;
  readonly email: string;
  readonly amr: Amr;
  readonly refreshToken: string;
  /** The absolute end of the session, which no access token outlives. */
  readonly sessionEnd: Date;
}

export interface TokenPair {
  readonly accessToken: string;
  readonly refreshToken: string;
  readonly ttlSeconds: number;
}

export interface VerificationKey {
  readonly key: Key;
  readonly algorithm: 'HS256' | 'ES256';
}

interface VerificationOptions {
  readonly algorithms: ('HS256' | 'ES256')[];
  readonly issuer: string;
  readonly audience?: string;
  readonly ignoreExpiration: boolean;
}

interface SigningOptions {
  readonly secret: Key;
  readonly algorithm: 'HS256' | 'ES256';
  readonly keyid?: string;
}

@Injectable()
export class AccessTokens {
  readonly verificationOptions: VerificationOptions;
  private readonly jwt = new JwtService();
  private readonly ttlSeconds: number;
  private readonly secretKey: Key;
  private readonly previousSecretKey: Key | undefined;

  constructor(
    private readonly signingKeys: SigningKeysService,
    private readonly environment: Environment,
    private readonly clock: ComparedClock,
  ) {
    const { secretKey, secretKeyPrevious } = environment;
    this.ttlSeconds = environment.accessTokenExpireMinutes * 60;
    this.verificationOptions = {
      // Both are safe: jsonwebtoken refuses a public key for HS256 and a secret for ES256, so the key decides.
      algorithms: ['HS256', 'ES256'],
      issuer: environment.jwtIssuer,
      ...(environment.jwtAudience !== undefined && { audience: environment.jwtAudience }),
      // The user door compares the expiry with the injected clock.
      ignoreExpiration: true,
    };
    this.secretKey = createSigningKey(secretKey);
    this.previousSecretKey = secretKeyPrevious === undefined ? undefined : createSigningKey(secretKeyPrevious);
  }

  async signTokenPair(grant: Grant): Promise<TokenPair> {
    return (await this.prepareSigning())(grant);
  }

  /** Does the part of signing that can fail, so that a caller can do it before a commit. */
  async prepareSigning(): Promise<(grant: Grant) => TokenPair> {
    const options = await this.getSigningOptions();
    return (grant) => {
      const issuedAt = Math.floor(this.clock.trustedNow().getTime() / 1_000);
      const ttlSeconds = Math.min(this.ttlSeconds, Math.floor(grant.sessionEnd.getTime() / 1_000) - issuedAt);
      const accessToken = this.signAccessToken(grant, { iat: issuedAt, exp: issuedAt + ttlSeconds }, options);
      return { accessToken, refreshToken: grant.refreshToken, ttlSeconds };
    };
  }

  /**
   * Finds the key by the header, and does not verify the signature.
   * @param isFresh whether to skip the cache of signing keys
   */
  async findVerificationKey(token: string, isFresh = false): Promise<VerificationKey | undefined> {
    if (token.startsWith(HS256_HEADER + PAYLOAD_START)) {
      const isAccepted = await this.signingKeys.isAlgorithmAccepted('HS256');
      return isAccepted ? { key: this.chooseSecretKey(token), algorithm: 'HS256' } : undefined;
    }
    const kid = readKid(token, 'JWT');
    if (kid === undefined || !(await this.signingKeys.isAlgorithmAccepted('ES256'))) return undefined;
    const pair = await this.signingKeys.findKey(kid, isFresh);
    return pair && { key: pair.publicKey, algorithm: 'ES256' };
  }

  /** @returns the claims, which may be incomplete or expired; undefined for a token that this service did not sign */
  async verifySignature(token: string): Promise<Partial<AccessTokenClaims> | undefined> {
    const found = await this.findVerificationKey(token);
    return found && this.tryVerify<AccessTokenClaims>(token, { secret: found.key, ...this.verificationOptions });
  }

  /** Signs with ES256 in any case: under HS256 every service that verifies tokens could sign any chain. */
  async signDelegatedToken(claims: Omit<DelegatedClaims, 'iss' | 'jti'>): Promise<string> {
    await this.signingKeys.recordSigning();
    const { privateKey, kid } = await this.signingKeys.findActiveKey();
    const header = { alg: 'ES256', typ: DELEGATED_TYPE, kid };
    const signed: DelegatedClaims = { iss: this.delegatedIssuer, ...claims, jti: createRandomId() };
    return this.jwt.sign(signed, toJwtOptions({ secret: privateKey, algorithm: 'ES256' as const, header }));
  }

  /**
   * @param isFresh whether to skip the cache of signing keys
   * @returns the claims, which may be incomplete or expired; undefined for a token that this service did not sign
   */
  async verifyDelegatedSignature(token: string, isFresh = false): Promise<Partial<DelegatedClaims> | undefined> {
    const kid = readKid(token, DELEGATED_TYPE);
    if (kid === undefined || !(await this.signingKeys.isAlgorithmAccepted('ES256'))) return undefined;
    const pair = await this.signingKeys.findKey(kid, isFresh);
    const options = { algorithms: ['ES256' as const], issuer: this.delegatedIssuer, ignoreExpiration: true };
    return pair && this.tryVerify<DelegatedClaims>(token, { secret: pair.publicKey, ...options });
  }

  /** Looks at the header only. */
  isDelegated(token: string): boolean {
    return token.startsWith(DELEGATED_START);
  }

  private get delegatedIssuer(): string {
    return this.environment.jwtIssuer + DELEGATED_SUFFIX;
  }

  private async getSigningOptions(): Promise<SigningOptions> {
    await this.signingKeys.recordSigning();
    if (this.environment.accessTokenAlgorithm === 'HS256') return { secret: this.secretKey, algorithm: 'HS256' };
    const { privateKey, kid } = await this.signingKeys.findActiveKey();
    return { secret: privateKey, algorithm: 'ES256', keyid: kid };
  }

  private signAccessToken(
    { userId, sessionId, email, amr }: Grant,
    { iat, exp }: Pick<AccessTokenClaims, 'iat' | 'exp'>,
    options: SigningOptions,
  ): string {
    const { jwtIssuer, jwtAudience } = this.environment;
    const claims: AccessTokenClaims = {
      iss: jwtIssuer,
      sub: userId,
      sid: sessionId,
      jti: createRandomId(),
      iat,
      exp,
      email,
      amr,
      ...(jwtAudience !== undefined && { aud: jwtAudience }),
    };
    return this.jwt.sign(claims, toJwtOptions(options));
  }

  private tryVerify<Claims extends object>(
    token: string,
    options: VerificationOptions & { readonly secret: Key },
  ): Partial<Claims> | undefined {
    try {
      return this.jwt.verify<Partial<Claims>>(token, toJwtOptions(options));
    } catch {
      return undefined;
    }
  }

  private chooseSecretKey(token: string): Key {
    const { secretKey, previousSecretKey } = this;
    return previousSecretKey && isSignedWith(previousSecretKey, token) ? previousSecretKey : secretKey;
  }
}

function isSignedWith(key: Key, token: string): boolean {
  const end = token.lastIndexOf('.');
  return isSameDigest(computeMac(key, token.slice(0, end)), Buffer.from(token.slice(end + 1), 'base64url'));
}

/** @returns undefined unless the header is, byte for byte, one that this service writes */
function readKid(token: string, typ: TokenType): string | undefined {
  const header = Buffer.from(token.slice(0, ES256_HEADER_LENGTHS[typ] - 1), 'base64url').toString();
  const { kid } = KID.exec(header)?.groups ?? {};
  return kid !== undefined && token.startsWith(encodeEs256Header(kid, typ) + PAYLOAD_START) ? kid : undefined;
}

function encodeEs256Header(kid: string, typ: TokenType): string {
  return `${Buffer.from(JSON.stringify({ alg: 'ES256', typ, kid })).toString('base64url')}.`;
}

/** The types of @nestjs/jwt demand text, but jsonwebtoken also takes a `KeyObject`, which is imported only once. */
function toJwtOptions<Options extends { secret: unknown }>(
  options: Options,
): Omit<Options, 'secret'> & { secret: string } {
  return options as Omit<Options, 'secret'> & { secret: string };
}
