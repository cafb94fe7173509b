import { timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { CredentialKind } from './change-feed.js';
import type { EvictionListener, RevocationLease, Ticket } from './lease.js';

interface VerifiedKey<Identity> {
  /** SHA-256 of a generated secret. */
  readonly digest: Buffer;
  readonly identity: Identity;
  readonly expiresAt: Date | null;
  /** Maximum age since the ticket, by the monotonic clock. Undefined: the lease alone is the limit. */
  readonly maxAgeMs?: number;
}

export interface RememberedKey<Identity> extends VerifiedKey<Identity> {
  readonly takenAtMs: number;
  readonly maxAgeMs: number;
}

/** During a rotation two keys are valid, and replicas of their holder present both. */
const MAX_KEYS_OF_ID = 2;

/** The valid keys of one table. Refusals are never cached, and entries are used only while the lease is held. */
export class KeyCache<Identity extends object> implements EvictionListener {
  private readonly entries: LRUCache<string, readonly RememberedKey<Identity>[]>;

  constructor(
    readonly kind: CredentialKind,
    private readonly lease: RevocationLease,
    maxEntries: number,
  ) {
    this.entries = new LRUCache({ max: maxEntries });
    lease.addListener(this);
  }

  /**
   * @param readNow called only for a key that expires; its exceptions are passed on
   * @returns undefined when the database must be read
   */
  recall(id: string, presented: Buffer, readNow: () => Date): Identity | undefined {
    const key = this.find(id, presented);
    return key && this.isUsable(key, readNow) ? key.identity : undefined;
  }

  /** Also finds a key that must not be used any more. It was valid once, and no change of it was reported since. */
  find(id: string, presented: Buffer): RememberedKey<Identity> | undefined {
    return this.entries.get(id)?.find(({ digest }) => isSameDigest(digest, presented));
  }

  isUsable({ takenAtMs, maxAgeMs, expiresAt }: RememberedKey<Identity>, readNow: () => Date): boolean {
    const { lease } = this;
    if (!lease.isHeld || lease.isStale(takenAtMs) || lease.isOlderThan(takenAtMs, maxAgeMs)) return false;
    return expiresAt === null || expiresAt > readNow();
  }

  takeTicket(): Ticket {
    return this.lease.takeTicket();
  }

  /** Ignores a row when the feed has reported any change since its ticket (TOCTOU). */
  remember(id: string, key: VerifiedKey<Identity>, ticket: Ticket): void {
    if (!this.lease.isCurrent(ticket)) return;
    const { digest, identity, expiresAt, maxAgeMs = Infinity } = key;
    const others = this.entries.get(id)?.filter((other) => !isSameDigest(other.digest, digest)) ?? [];
    const remembered = { digest, identity, expiresAt, maxAgeMs, takenAtMs: ticket.takenAtMs };
    this.entries.set(id, [remembered, ...others].slice(0, MAX_KEYS_OF_ID));
  }

  /** Evicts the refused key, and no other key of its id. */
  forget(id: string, refused: Buffer): void {
    const others = this.entries.get(id)?.filter(({ digest }) => !isSameDigest(digest, refused)) ?? [];
    if (others.length > 0) this.entries.set(id, others);
    else this.evict(id);
  }

  evict(id: string): void {
    this.entries.delete(id);
  }

  evictAll(): void {
    this.entries.clear();
  }
}

function isSameDigest(one: Buffer, other: Buffer): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}
