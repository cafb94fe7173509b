import { createSecretKey, type KeyObject } from 'node:crypto';
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, errors, jwtVerify, type JSONWebKeySet } from 'jose';
import type { RevocationLease } from '../../../packages/lease/src/lease.js';
import { isUnavailable, parseObject } from './answers.js';
import type { Checks } from './checks.js';
import { CLOCK_TOLERANCE_SECONDS } from './clock-check.js';
import { DELEGATED_TYPE, readChain, toDelegatedIssuer } from './delegation.js';
import type { Settings } from './options.js';
import type { Runtime } from './runtime.js';
import type { ServiceClient } from './service-client.js';
import type { TokenClaims } from './to-principal.js';
import type { TokenSetting } from './token-settings.js';

/** `unknown`: only the service can tell. A setting: it does not fit the token, so one of the two is wrong. */
export type TokenVerdict = 'good' | 'bad' | 'unknown' | TokenSetting;

const DEFAULT_MAX_AGE_SECONDS = 300;
const LONGEST_MAX_AGE_SECONDS = 3_600;
/** Limits the fetches that unknown kids cause. */
const UNKNOWN_KID_PAUSE_MS = 30_000;
/** The pause after a failed fetch, during which the service verifies the tokens. */
const FAILED_FETCH_PAUSE_MS = 5_000;

/** JWS Compact Serialization: base64url without padding (RFC 7515 §2). */
const COMPACT = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/;
/** Members of the header that change what is signed, which tokens of the service do not have. */
const EXTENSIONS = ['crit', 'b64'];
const KEY_ERRORS = [errors.JWKSNoMatchingKey, errors.JWKSMultipleMatchingKeys, errors.JWKSInvalid, errors.JWKInvalid];

/** The name of this cause in configuration errors. */
const JWKS = 'AUTH_JWKS_URL';

interface PublishedKeys {
  readonly resolve: ReturnType<typeof createLocalJWKSet>;
  readonly sentAtMs: number;
  readonly maxAgeMs: number;
}

/**
 * Verifies signatures locally, so that forged tokens do not reach the service. It refuses only what is proven to be
 * forged.
 */
export class TokenCheck {
  private readonly secrets: readonly KeyObject[];
  private keys: PublishedKeys | undefined;
  private fetching: Promise<PublishedKeys | undefined> | undefined;
  private fetchedForKidAtMs = -Infinity;
  private fetchFailedAtMs = -Infinity;
  /** Counts the times when the keys were dropped, so that an older fetch is ignored. */
  private drops = 0;

  constructor(
    private readonly settings: Settings,
    private readonly runtime: Runtime,
    private readonly client: ServiceClient,
    private readonly checks: Checks,
    lease: RevocationLease,
  ) {
    const dropKeys = (): void => this.dropKeys();
    lease.addListener({ kind: 'signing_key', evict: dropKeys, evictAll: dropKeys });
    this.secrets = [settings.secretKey, settings.secretKeyPrevious]
      .filter((secret) => secret !== undefined)
      .map((secret) => createSecretKey(secret, 'utf8'));
  }

  /**
   * Reads the ids without verifying them.
   * @returns undefined when this is not a token of the service
   */
  readClaims(token: string): TokenClaims | undefined {
    try {
      const { alg, kid, typ, ...header } = decodeProtectedHeader(token);
      const { sub, sid, act } = decodeJwt(token);
      if (!COMPACT.test(token) || EXTENSIONS.some((name) => name in header)) return undefined;
      if ((alg !== 'HS256' && alg !== 'ES256') || (kid !== undefined && typeof kid !== 'string')) return undefined;
      if (typeof sub !== 'string' || typeof sid !== 'string') return undefined;
      const ids = { userId: sub.toLowerCase(), sessionId: sid.toLowerCase() };
      if (typ !== DELEGATED_TYPE) return ids;
      const chain = readChain(act);
      // Under HS256 every holder of the secret could sign any chain.
      return chain && alg === 'ES256' ? { ...ids, chain } : undefined;
    } catch {
      return undefined;
    }
  }

  /** @param deadlineMs until which it waits for the keys */
  async check(token: string, deadlineMs: number): Promise<TokenVerdict> {
    const { alg } = decodeProtectedHeader(token);
    if (alg === 'HS256') return this.verifyWithSecrets(token);
    if (this.settings.jwksUrl === undefined) return 'unknown';
    const arrivedAtMs = this.runtime.clocks.monotonic();
    const keys = await this.getKeys(deadlineMs);
    if (!keys) return 'unknown';
    const verdict = await this.verify(token, 'ES256', keys.resolve);
    // Keys that were fetched since this token arrived are not fetched again for it.
    return verdict === 'unknown' && keys.sentAtMs < arrivedAtMs ? this.verifyWithNewer(token, deadlineMs) : verdict;
  }

  private dropKeys(): void {
    this.drops += 1;
    this.keys = undefined;
    this.fetchedForKidAtMs = -Infinity;
  }

  /** While the secret is rotated, either one may have signed the token. */
  private async verifyWithSecrets(token: string): Promise<TokenVerdict> {
    let verdict: TokenVerdict = 'unknown';
    for (const secret of this.secrets) {
      verdict = await this.verify(token, 'HS256', secret);
      if (verdict !== 'SECRET_KEY') break;
    }
    return verdict;
  }

  private async verifyWithNewer(token: string, deadlineMs: number): Promise<TokenVerdict> {
    const nowMs = this.runtime.clocks.monotonic();
    if (nowMs < this.fetchedForKidAtMs + UNKNOWN_KID_PAUSE_MS) return 'unknown';
    this.fetchedForKidAtMs = nowMs;
    const newer = await this.fetchOnce(deadlineMs);
    // A kid that is still unknown is not proof of a forgery: a cache, or a replica without the database, may have
    // answered.
    return newer ? this.verify(token, 'ES256', newer.resolve) : 'unknown';
  }

  private async verify(
    token: string,
    algorithm: string,
    key: KeyObject | PublishedKeys['resolve'],
  ): Promise<TokenVerdict> {
    if (decodeProtectedHeader(token).typ === DELEGATED_TYPE) return this.verifyDelegated(token, key);
    const { issuer, audience } = this.settings;
    try {
      const { payload } = await jwtVerify(token, key as PublishedKeys['resolve'], {
        algorithms: [algorithm],
        issuer,
        ...(audience !== undefined && { audience }),
        currentDate: new Date(this.runtime.clocks.wall()),
        clockTolerance: CLOCK_TOLERANCE_SECONDS,
        requiredClaims: ['exp', 'sub', 'sid'],
      });
      return audience === undefined && payload.aud !== undefined ? 'JWT_AUDIENCE' : 'good';
    } catch (error) {
      if (!(error instanceof errors.JOSEError) || isAboutKeys(error)) return 'unknown';
      if (isAboutTime(error)) return this.checks.clock.isWrong ? 'unknown' : 'bad';
      if (decodeJwt(token).iss === toDelegatedIssuer(issuer)) return 'bad';
      return this.isInTime(token) ? (findSetting(error, algorithm) ?? 'bad') : 'bad';
    }
  }

  /**
   * Of a delegated token only the signature may show a wrong setting: the service would judge its issuer and audience by the
   * same text.
   */
  private async verifyDelegated(token: string, key: KeyObject | PublishedKeys['resolve']): Promise<TokenVerdict> {
    const { issuer, serviceName } = this.settings;
    try {
      const { payload } = await jwtVerify(token, key as PublishedKeys['resolve'], {
        algorithms: ['ES256'],
        issuer: toDelegatedIssuer(issuer),
        currentDate: new Date(this.runtime.clocks.wall()),
        clockTolerance: CLOCK_TOLERANCE_SECONDS,
        requiredClaims: ['exp', 'sub', 'sid'],
      });
      // One target: a list is not a form that the service issues.
      return payload.aud === serviceName ? 'good' : 'bad';
    } catch (error) {
      if (!(error instanceof errors.JOSEError) || isAboutKeys(error)) return 'unknown';
      if (isAboutTime(error)) return this.checks.clock.isWrong ? 'unknown' : 'bad';
      const isUnsigned = error instanceof errors.JWSSignatureVerificationFailed;
      return isUnsigned && this.isInTime(token) ? 'AUTH_JWKS_URL' : 'bad';
    }
  }

  /** Reads the times before the signature is verified: outside of them no verifier accepts the token. */
  private isInTime(token: string): boolean {
    if (this.checks.clock.isWrong) return true;
    const { exp, nbf = 0 } = decodeJwt(token);
    const nowSeconds = this.runtime.clocks.wall() / 1_000;
    const isLive = typeof exp === 'number' && exp > nowSeconds - CLOCK_TOLERANCE_SECONDS;
    return isLive && nbf <= nowSeconds + CLOCK_TOLERANCE_SECONDS;
  }

  private async getKeys(deadlineMs: number): Promise<PublishedKeys | undefined> {
    const { keys } = this;
    const nowMs = this.runtime.clocks.monotonic();
    if (keys && nowMs < keys.sentAtMs + keys.maxAgeMs) return keys;
    if (nowMs < this.fetchFailedAtMs + FAILED_FETCH_PAUSE_MS) return undefined;
    return this.fetchOnce(deadlineMs);
  }

  private fetchOnce(deadlineMs: number): Promise<PublishedKeys | undefined> {
    this.fetching ??= this.fetch(deadlineMs).finally(() => (this.fetching = undefined));
    return this.fetching;
  }

  private async fetch(deadlineMs: number): Promise<PublishedKeys | undefined> {
    const { jwksUrl = '' } = this.settings;
    const dropsBefore = this.drops;
    const request = { method: 'GET', url: jwksUrl, headers: { Accept: 'application/json' } } as const;
    const timed = await this.client.sendWithRetry(request, deadlineMs).catch(() => undefined);
    const resolve = timed?.answer.status === 200 ? toKeySet(timed.answer.body) : undefined;
    if (!timed || !resolve) {
      this.fetchFailedAtMs = this.runtime.clocks.monotonic();
      if (timed && !isUnavailable(timed.answer.status))
        this.checks.misconfigurations.report(JWKS, `${timed.answer.status}: not a JWKS`);
      return undefined;
    }
    this.checks.misconfigurations.clear(JWKS);
    if (this.drops !== dropsBefore) return undefined;
    const maxAgeMs = readMaxAgeSeconds(timed.answer.headers['cache-control']) * 1_000;
    return (this.keys = { resolve, sentAtMs: timed.sentAtMs, maxAgeMs });
  }
}

/** An error in the published keys says nothing about the token. */
function isAboutKeys(error: errors.JOSEError): boolean {
  return KEY_ERRORS.some((type) => error instanceof type);
}

function isAboutTime(error: errors.JOSEError): boolean {
  if (error instanceof errors.JWTExpired) return true;
  return error instanceof errors.JWTClaimValidationFailed && error.claim === 'nbf' && error.reason === 'check_failed';
}

/** @returns undefined when the token is invalid under every configuration */
function findSetting(error: errors.JOSEError, algorithm: string): TokenSetting | undefined {
  if (error instanceof errors.JWSSignatureVerificationFailed) {
    return algorithm === 'HS256' ? 'SECRET_KEY' : 'AUTH_JWKS_URL';
  }
  if (!(error instanceof errors.JWTClaimValidationFailed)) return undefined;
  if (error.claim === 'iss') return 'JWT_ISSUER';
  return error.claim === 'aud' ? 'JWT_AUDIENCE' : undefined;
}

function toKeySet(text: string): PublishedKeys['resolve'] | undefined {
  try {
    return createLocalJWKSet(parseObject(text) as unknown as JSONWebKeySet);
  } catch {
    return undefined;
  }
}

function readMaxAgeSeconds(cacheControl = ''): number {
  const maxAge = /(?:^|[\s,])max-age=(\d{1,9})/.exec(cacheControl)?.[1];
  return Math.min(LONGEST_MAX_AGE_SECONDS, maxAge === undefined ? DEFAULT_MAX_AGE_SECONDS : Number(maxAge));
}
