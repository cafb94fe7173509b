/**
 * The signing keys that this replica caches under the lease: as with keys of apps and nodes, a revocation evicts them,
 * and without a lease each use reads the database. Only the JWKS falls back to keys that were read earlier.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable, type OnModuleInit } from '@nestjs/common';
import { Environment } from '../../foundation/config/environment.js';
import type { KeyPair } from '../../foundation/crypto/key-pair.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { isDatabaseFailure } from '../../foundation/database/database-failure.js';
import { Database, shareReads, type Statement } from '../../foundation/database/database.js';
import { RevocationLease, type EvictionListener } from '../../../packages/lease/src/lease.js';
import { toErrorFields, Log } from '../../foundation/logging/log.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { getOldestIssuedAt, SigningKeyRotation, SigningKeyVault } from './signing-key-rotation.js';
import type { SigningKeyState } from './signing-key.entity.js';

const RECORD_INTERVAL_MS = 60_000;
/** Shorter than the margin of `getOldestIssuedAt`. */
const MAX_UNRECORDED_MS = 300_000;
/** Limits the reads that tokens with an unknown `kid`, which any client can send, cause. */
const UNKNOWN_KEY_INTERVAL_MS = 250;

/** Leaves out keys that were retired before `$1`, because their tokens have expired. */
const READ_KEYS: Statement = {
  name: 'signing_keys_read',
  text: `SELECT algorithm, last_signed_at, kid, state, encrypted_private_key, created_at, activated_at, retired_at
         FROM signing_algorithms LEFT JOIN
           (SELECT * FROM signing_keys
            WHERE state IN ('next', 'active') OR COALESCE(revoked_at, retired_at) > $1) AS keys
           USING (algorithm)`,
};

type Algorithm = 'HS256' | 'ES256';

interface SigningKeyRow {
  readonly algorithm: Algorithm;
  readonly last_signed_at: Date | null;
  readonly kid: string | null;
  readonly state: SigningKeyState;
  readonly encrypted_private_key: Buffer | null;
  readonly created_at: Date;
  readonly activated_at: Date | null;
  readonly retired_at: Date | null;
}

@Injectable()
export class SigningKeysService implements EvictionListener, OnModuleInit {
  readonly kind = 'signing_key';
  private remembered: { readonly view: SigningKeyView; readonly takenAtMs: number } | undefined;
  private latest: SigningKeyView | undefined;
  private rereading: Promise<SigningKeyView> | undefined;
  private rereadAtMs = -Infinity;
  private recordedAtMs = -Infinity;
  private readonly unreadableKids = new Set<string>();
  private readonly readKeys = shareReads(() => this.loadKeys());

  constructor(
    private readonly lease: RevocationLease,
    private readonly database: Database,
    private readonly rotation: SigningKeyRotation,
    private readonly vault: SigningKeyVault,
    private readonly environment: Environment,
    private readonly clock: ComparedClock,
    private readonly log: Log,
  ) {
    lease.addListener(this);
  }

  async onModuleInit(): Promise<void> {
    try {
      await this.rotation.reencryptKeys();
      if (this.environment.accessTokenAlgorithm === 'ES256') await this.rotation.advanceKeys();
      await this.readKeys();
    } catch (error) {
      // The first use reads the keys.
      if (!isDatabaseFailure(error)) throw error;
      this.log.warn('signing_keys_not_read', { error: toErrorFields(error) });
    }
  }

  evict(): void {
    this.remembered = undefined;
  }

  evictAll(): void {
    this.remembered = undefined;
  }

  /** @throws {ProblemException} unavailable */
  async findActiveKey(): Promise<KeyPair> {
    let view = this.recall() ?? (await this.readKeys());
    if (view.activeKid === undefined) {
      await this.rotation.advanceKeys();
      view = await this.readKeys();
    }
    const active = view.pairs.get(view.activeKid ?? '');
    if (!active) throw new ProblemException(problems.unavailable);
    return active;
  }

  /** @returns undefined for a key that does not exist, is revoked, or whose tokens have all expired */
  async findKey(kid: string, isFresh = false): Promise<KeyPair | undefined> {
    // An unknown `kid` does not skip the cache, so that it costs a limited number of statements even when a fresh
    // answer is asked for.
    const isUnknown = this.recall()?.kids.has(kid) === false;
    const view = isFresh && !isUnknown ? await this.readKeys() : await this.readUnless(({ kids }) => kids.has(kid));
    if (view.isUnreadable(kid)) throw new ProblemException(problems.unavailable);
    return view.pairs.get(kid);
  }

  /** Accepts the algorithm of another configuration while a replica may have signed with it recently. */
  async isAlgorithmAccepted(algorithm: Algorithm): Promise<boolean> {
    if (algorithm === this.environment.accessTokenAlgorithm) return true;
    const isInUse = (view: SigningKeyView): boolean => view.isInUseSince(algorithm, this.oldestIssuedAt);
    return isInUse(await this.readUnless(isInUse));
  }

  /** Must be called before a token is signed, so that replicas with another configuration accept its algorithm. */
  async recordSigning(): Promise<void> {
    const now = this.clock.now();
    const ageMs = Math.abs(now.getTime() - this.recordedAtMs);
    if (ageMs < RECORD_INTERVAL_MS) return;
    try {
      await this.rotation.recordSigning();
      this.recordedAtMs = now.getTime();
    } catch (error) {
      if (ageMs > MAX_UNRECORDED_MS) throw error;
    }
  }

  /**
   * Lists the keys of the JWKS. While the database is unavailable, these are the keys that were read last.
   * @throws {ProblemException} unavailable when this replica cannot decrypt one of them
   */
  async listPublishedKeys(): Promise<KeyPair[]> {
    const view = this.recall() ?? (await this.readKeys().catch((error: unknown) => this.fallBack(error)));
    const { accessTokenAlgorithm } = this.environment;
    const isShown = accessTokenAlgorithm === 'ES256' || view.isInUseSince('ES256', this.oldestIssuedAt);
    return isShown ? view.listSince(this.oldestIssuedAt) : [];
  }

  private get oldestIssuedAt(): Date {
    return getOldestIssuedAt(this.environment, this.clock.trustedNow());
  }

  /** Ignores OUTAGE_GRACE_SECONDS, because verifying a token reads its session from the database in any case. */
  private recall(): SigningKeyView | undefined {
    if (!this.remembered || this.lease.remainingMs === 0 || this.lease.isStale(this.remembered.takenAtMs))
      return undefined;
    return this.remembered.view;
  }

  /** @param isEnough whether the cached keys decide; otherwise the database is read, at a limited rate */
  private async readUnless(isEnough: (view: SigningKeyView) => boolean): Promise<SigningKeyView> {
    const view = this.recall();
    if (!view) return this.readKeys();
    return isEnough(view) ? view : this.rereadInTurn();
  }

  private rereadInTurn(): Promise<SigningKeyView> {
    const waitMs = Math.max(0, this.rereadAtMs + UNKNOWN_KEY_INTERVAL_MS - performance.now());
    this.rereading ??= sleep(waitMs).then(() => {
      // Later callers start another read, which is newer than their question.
      this.rereading = undefined;
      this.rereadAtMs = performance.now();
      return this.readKeys();
    });
    return this.rereading;
  }

  private async loadKeys(): Promise<SigningKeyView> {
    const ticket = this.lease.takeTicket();
    const rows = await this.database.rows<SigningKeyRow>(READ_KEYS, [this.oldestIssuedAt]);
    const known = this.latest?.pairs;
    const view = new SigningKeyView(rows, (kid, encrypted) => known?.get(kid) ?? this.decryptKey(kid, encrypted));
    this.latest = view;
    if (this.lease.isCurrent(ticket)) this.remembered = { view, takenAtMs: ticket.takenAtMs };
    return view;
  }

  private decryptKey(kid: string, encrypted: Buffer): KeyPair | undefined {
    const pair = this.vault.decryptKey(kid, encrypted)?.pair;
    if (!pair && !this.unreadableKids.has(kid)) {
      this.log.error('signing_key_not_decrypted', { kid });
      this.unreadableKids.add(kid);
    }
    return pair;
  }

  private fallBack(error: unknown): SigningKeyView {
    if (this.latest && isDatabaseFailure(error)) return this.latest;
    throw error;
  }
}

/** The signing keys of the database at one moment. */
class SigningKeyView {
  /** Excludes revoked keys, and keys that this replica cannot decrypt. */
  readonly pairs = new Map<string, KeyPair>();
  /** Includes revoked keys, and keys that this replica cannot decrypt. */
  readonly kids: ReadonlySet<string>;
  readonly activeKid: string | undefined;

  constructor(
    private readonly rows: readonly SigningKeyRow[],
    open: (kid: string, encrypted: Buffer) => KeyPair | undefined,
  ) {
    for (const { kid, state, encrypted_private_key: encrypted } of rows) {
      const pair = kid !== null && state !== 'revoked' && encrypted ? open(kid, encrypted) : undefined;
      if (pair) this.pairs.set(pair.kid, pair);
    }
    this.kids = new Set(rows.flatMap(({ kid }) => kid ?? []));
    this.activeKid = rows.find(({ state }) => state === 'active')?.kid ?? undefined;
  }

  isUnreadable(kid: string): boolean {
    return this.rows.some((row) => row.kid === kid && row.state !== 'revoked') && !this.pairs.has(kid);
  }

  /**
   * A standard library refuses a token whose `kid` the JWKS does not have with 401, so no key is left out that this
   * replica cannot decrypt. An erased key is: its tokens have expired.
   * @throws {ProblemException} unavailable
   */
  listSince(since: Date): KeyPair[] {
    const shown = this.rows.filter(
      ({ state, encrypted_private_key: encrypted, retired_at: retiredAt }) =>
        state !== 'revoked' && encrypted !== null && (retiredAt === null || retiredAt > since),
    );
    return shown.map(({ kid }) => {
      const pair = this.pairs.get(kid ?? '');
      if (!pair) throw new ProblemException(problems.unavailable);
      return pair;
    });
  }

  /** A key that was made or activated since then counts too, because it will sign soon. */
  isInUseSince(algorithm: Algorithm, since: Date): boolean {
    const times = this.rows
      .filter((row) => row.algorithm === algorithm)
      .flatMap(({ last_signed_at, created_at, activated_at }) => [last_signed_at, created_at, activated_at]);
    return times.some((time) => time !== null && time > since);
  }
}
