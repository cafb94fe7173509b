import { createSecretKey, type KeyObject } from 'node:crypto';
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, errors, jwtVerify, type JSONWebKeySet } from 'jose';
import type { RevocationLease } from '../../../src/keys/cache/revocation-lease.js';
import { parseObject } from './answers.js';
import type { Settings } from './options.js';
import type { UserPrincipal } from './principals.js';
import type { Runtime } from './runtime.js';
import type { ServiceClient } from './service-client.js';

/** `unknown`: only the service can tell. */
export type TokenVerdict = 'good' | 'bad' | 'unknown';

const CLOCK_TOLERANCE_SECONDS = 60;
const DEFAULT_MAX_AGE_SECONDS = 300;
const LONGEST_MAX_AGE_SECONDS = 3_600;
/** Between two fetches because of a kid that is not known. */
const UNKNOWN_KID_PAUSE_MS = 30_000;

interface PublishedKeys {
  readonly resolve: ReturnType<typeof createLocalJWKSet>;
  readonly sentAtMs: number;
  readonly maxAgeMs: number;
}

/** Verifies tokens without the service, so that it is not asked about forgeries. Refuses on evidence only. */
export class TokenCheck {
  private readonly secret: KeyObject | undefined;
  private keys: PublishedKeys | undefined;
  private fetching: Promise<PublishedKeys | undefined> | undefined;
  private fetchedForKidAtMs = -Infinity;
  /** Voids a fetch that was sent before the keys were dropped. */
  private drops = 0;

  constructor(
    private readonly settings: Settings,
    private readonly runtime: Runtime,
    private readonly client: ServiceClient,
    lease: RevocationLease,
  ) {
    const dropKeys = (): void => this.dropKeys();
    lease.addListener({ kind: 'signing_key', evict: dropKeys, evictAll: dropKeys });
    this.secret = settings.secretKey === undefined ? undefined : createSecretKey(settings.secretKey, 'utf8');
  }

  /** Reads the ids without verifying them. @returns undefined for what is not a token of the service */
  readClaims(token: string): Pick<UserPrincipal, 'userId' | 'sessionId'> | undefined {
    try {
      const { alg } = decodeProtectedHeader(token);
      const { sub, sid } = decodeJwt(token);
      if ((alg !== 'HS256' && alg !== 'ES256') || typeof sub !== 'string' || typeof sid !== 'string') return undefined;
      return { userId: sub.toLowerCase(), sessionId: sid.toLowerCase() };
    } catch {
      return undefined;
    }
  }

  /** @param deadlineMs when the keys must be there */
  async check(token: string, deadlineMs: number): Promise<TokenVerdict> {
    const { alg } = decodeProtectedHeader(token);
    if (alg === 'HS256') return this.secret ? this.verify(token, alg, this.secret) : 'unknown';
    if (this.settings.jwksUrl === undefined) return 'unknown';
    const keys = await this.getKeys(deadlineMs);
    return keys ? this.verifyWithPublished(token, keys, deadlineMs) : 'unknown';
  }

  private dropKeys(): void {
    this.drops += 1;
    this.keys = undefined;
    this.fetchedForKidAtMs = -Infinity;
  }

  private async verifyWithPublished(token: string, keys: PublishedKeys, deadlineMs: number): Promise<TokenVerdict> {
    const verdict = await this.verify(token, 'ES256', keys.resolve);
    const nowMs = this.runtime.clocks.monotonic();
    if (verdict !== 'unknown' || nowMs < this.fetchedForKidAtMs + UNKNOWN_KID_PAUSE_MS) return verdict;
    this.fetchedForKidAtMs = nowMs;
    const newer = await this.fetchOnce(deadlineMs);
    if (!newer) return 'unknown';
    // A kid that is still unknown proves nothing: the replica that answered may not have read a key that is new.
    return this.verify(token, 'ES256', newer.resolve);
  }

  private async verify(
    token: string,
    algorithm: string,
    key: KeyObject | PublishedKeys['resolve'],
  ): Promise<TokenVerdict> {
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
      return audience === undefined && payload.aud !== undefined ? 'bad' : 'good';
    } catch (error) {
      const isKeyUnknown =
        error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys;
      return error instanceof errors.JOSEError && !isKeyUnknown ? 'bad' : 'unknown';
    }
  }

  private async getKeys(deadlineMs: number): Promise<PublishedKeys | undefined> {
    const { keys } = this;
    if (keys && this.runtime.clocks.monotonic() < keys.sentAtMs + keys.maxAgeMs) return keys;
    return this.fetchOnce(deadlineMs);
  }

  private fetchOnce(deadlineMs: number): Promise<PublishedKeys | undefined> {
    this.fetching ??= this.fetch(deadlineMs).finally(() => (this.fetching = undefined));
    return this.fetching;
  }

  private async fetch(deadlineMs: number): Promise<PublishedKeys | undefined> {
    const { jwksUrl = '' } = this.settings;
    const dropsBefore = this.drops;
    try {
      const request = { method: 'GET', url: jwksUrl, headers: { Accept: 'application/json' } } as const;
      const { answer, sentAtMs } = await this.client.attemptTwice(request, deadlineMs);
      const set = parseObject(answer.body);
      if (answer.status !== 200 || !set || this.drops !== dropsBefore) return undefined;
      const resolve = createLocalJWKSet(set as unknown as JSONWebKeySet);
      return (this.keys = { resolve, sentAtMs, maxAgeMs: readMaxAgeSeconds(answer.headers['cache-control']) * 1_000 });
    } catch {
      return undefined;
    }
  }
}

function readMaxAgeSeconds(cacheControl = ''): number {
  const maxAge = /(?:^|[\s,])max-age=(\d{1,9})/.exec(cacheControl)?.[1];
  return Math.min(LONGEST_MAX_AGE_SECONDS, maxAge === undefined ? DEFAULT_MAX_AGE_SECONDS : Number(maxAge));
}
