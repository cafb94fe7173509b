import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable, type OnModuleInit } from '@nestjs/common';
import DataLoader from 'dataloader';
import { Clock } from '../common/clock.js';
import { Environment } from '../config/environment.js';
import type { KeyPair } from '../crypto/key-pair.js';
import { DatabaseClock, Database } from '../database/database.js';
import { isDatabaseFailure } from '../database/database-failure.js';
import { RevocationLease, type EvictionListener } from '../revocation/lease.js';
import { toErrorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';
import { ProblemException, problems } from '../problems/problems.js';
import { KeyRotation } from './key-rotation.js';
import { KeyVault } from './key-vault.js';
import { KeyView } from './key-view.js';
import { getOldestIssuedAt } from './lifetimes.js';
import { READ_KEYS, RECORD_SIGNING, type Algorithm, type SigningKeyRow } from './signing-key-statements.js';

const RECORD_INTERVAL_MS = 60_000;
/** Well within the margin of `getOldestIssuedAt`. */
const MAX_UNRECORDED_MS = 300_000;
/** Between two reads that tokens with an unknown `kid` cause: anyone can send those. */
const UNKNOWN_KEY_INTERVAL_MS = 250;

/**
 * The keys of this replica, in memory under the lease: as with app and node keys, a revocation evicts them, and without a
 * lease each use reads the database. What was read last is kept for the JWKS alone.
 */
@Injectable()
export class SigningKeysService implements EvictionListener, OnModuleInit {
  readonly kind = 'signing_key';
  private remembered: { readonly view: KeyView; readonly takenAtMs: number } | undefined;
  private latest: KeyView | undefined;
  private rereading: Promise<KeyView> | undefined;
  private rereadAtMs = -Infinity;
  private recordedAtMs = -Infinity;
  private readonly unreadableKids = new Set<string>();
  /** Concurrent callers share a statement, which is sent after all of them asked. */
  private readonly loader = new DataLoader<'keys', KeyView>(
    async (callers) => {
      const view = await this.load();
      return callers.map(() => view);
    },
    { cache: false, batchScheduleFn: setImmediate },
  );

  constructor(
    private readonly lease: RevocationLease,
    private readonly database: Database,
    private readonly rotation: KeyRotation,
    private readonly vault: KeyVault,
    private readonly environment: Environment,
    private readonly clock: Clock,
    private readonly databaseClock: DatabaseClock,
    private readonly log: Log,
  ) {
    lease.addListener(this);
  }

  /** @throws {UnreadableSigningKeyError} */
  async onModuleInit(): Promise<void> {
    try {
      await this.rotation.reencrypt();
      if (this.environment.accessTokenAlgorithm === 'ES256') await this.rotation.run();
      await this.read();
    } catch (error) {
      // The first use reads them.
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
  async findActive(): Promise<KeyPair> {
    let view = this.recall() ?? (await this.read());
    if (!view.hasActive) {
      await this.rotation.run();
      view = await this.read();
    }
    if (!view.active) throw new ProblemException(problems.unavailable);
    return view.active;
  }

  /**
   * @returns undefined for a key that does not exist, is revoked, or was retired so long ago that its tokens have expired
   * @param isFresh asks PostgreSQL, not the memory under the lease
   * @throws {ProblemException} unavailable when the key cannot be decrypted
   */
  async find(kid: string, isFresh = false): Promise<KeyPair | undefined> {
    // Tokens with an unknown kid cost a limited number of statements, also when a fresh answer is asked for.
    const isUnknown = this.recall()?.has(kid) === false;
    const view = isFresh && !isUnknown ? await this.read() : await this.readUnless((remembered) => remembered.has(kid));
    if (view.isUnreadable(kid)) throw new ProblemException(problems.unavailable);
    return view.pairs.get(kid);
  }

  /** Whether tokens of the algorithm are accepted: it is configured, or another replica signed with it recently. */
  async isAccepted(algorithm: Algorithm): Promise<boolean> {
    if (algorithm === this.environment.accessTokenAlgorithm) return true;
    const isInUse = (view: KeyView): boolean => view.isInUseSince(algorithm, this.oldestIssuedAt);
    return isInUse(await this.readUnless(isInUse));
  }

  /** To be called before a token is signed: replicas with another algorithm accept it from now on. */
  async recordSigning(): Promise<void> {
    const now = this.clock.now();
    const ageMs = Math.abs(now.getTime() - this.recordedAtMs);
    if (ageMs < RECORD_INTERVAL_MS) return;
    try {
      const signedAt = await this.databaseClock.now();
      await this.database.rows(RECORD_SIGNING, [this.environment.accessTokenAlgorithm, signedAt]);
      this.recordedAtMs = now.getTime();
    } catch (error) {
      if (ageMs > MAX_UNRECORDED_MS) throw error;
    }
  }

  /** For the JWKS. While the database is away, what was read last. */
  async list(): Promise<KeyPair[]> {
    const view = this.recall() ?? (await this.read().catch((error: unknown) => this.fallBack(error)));
    const { accessTokenAlgorithm } = this.environment;
    const isShown = accessTokenAlgorithm === 'ES256' || view.isInUseSince('ES256', this.oldestIssuedAt);
    return isShown ? view.list(this.oldestIssuedAt) : [];
  }

  private get oldestIssuedAt(): Date {
    return getOldestIssuedAt(this.environment, this.clock.now());
  }

  /** Without the grace of OUTAGE_GRACE_SECONDS: the session of a token is read from the database in any case. */
  private recall(): KeyView | undefined {
    if (!this.remembered || this.lease.remainingMs === 0 || this.lease.isStale(this.remembered.takenAtMs))
      return undefined;
    return this.remembered.view;
  }

  /** @param isEnough whether the remembered keys decide; otherwise the database is asked, at a limited rate */
  private async readUnless(isEnough: (view: KeyView) => boolean): Promise<KeyView> {
    const view = this.recall();
    if (!view) return this.read();
    return isEnough(view) ? view : this.rereadInTurn();
  }

  private rereadInTurn(): Promise<KeyView> {
    const waitMs = Math.max(0, this.rereadAtMs + UNKNOWN_KEY_INTERVAL_MS - performance.now());
    this.rereading ??= sleep(waitMs).then(() => {
      // Later callers need a statement that is sent after they asked.
      this.rereading = undefined;
      this.rereadAtMs = performance.now();
      return this.read();
    });
    return this.rereading;
  }

  private read(): Promise<KeyView> {
    return this.loader.load('keys');
  }

  private async load(): Promise<KeyView> {
    const ticket = this.lease.takeTicket();
    const rows = await this.database.rows<SigningKeyRow>(READ_KEYS, [this.oldestIssuedAt]);
    const known = this.latest?.pairs;
    const view = new KeyView(rows, (kid, encrypted) => known?.get(kid) ?? this.open(kid, encrypted));
    this.latest = view;
    if (this.lease.isCurrent(ticket)) this.remembered = { view, takenAtMs: ticket.takenAtMs };
    return view;
  }

  private open(kid: string, encrypted: Buffer): KeyPair | undefined {
    const pair = this.vault.decrypt(kid, encrypted)?.pair;
    if (!pair && !this.unreadableKids.has(kid)) {
      this.log.error('signing_key_not_decrypted', { kid });
      this.unreadableKids.add(kid);
    }
    return pair;
  }

  private fallBack(error: unknown): KeyView {
    if (this.latest && isDatabaseFailure(error)) return this.latest;
    throw error;
  }
}
