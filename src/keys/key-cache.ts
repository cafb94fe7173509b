import { LRUCache } from 'lru-cache';
import { isSameDigest, type SecretDigest } from '../crypto/secret.js';
import type { CredentialKind } from '../revocation/change-feed.js';
import type { EvictionListener, RevocationLease, Ticket } from '../revocation/lease.js';

interface VerifiedKey<Identity> {
  readonly digest: SecretDigest;
  readonly identity: Identity;
  readonly expiresAt: Date | null;
  /** Counted from the ticket, by the monotonic clock. Default: no limit but the lease's. */
  readonly maxAgeMs?: number;
}

interface Entry<Identity> extends VerifiedKey<Identity> {
  readonly takenAtMs: number;
  readonly maxAgeMs: number;
}

/** The valid keys of one table. Refusals are never cached, and entries are used only while the lease is held. */
export class KeyCache<Identity extends object> implements EvictionListener {
  private readonly entries: LRUCache<string, Entry<Identity>>;

  constructor(
    readonly kind: CredentialKind,
    private readonly lease: RevocationLease,
    maxEntries: number,
  ) {
    this.entries = new LRUCache({ max: maxEntries });
    lease.addListener(this);
  }

  /** @returns undefined when the database must be asked */
  recall(id: string, presented: SecretDigest, now: Date): Identity | undefined {
    if (!this.lease.isHeld) return undefined;
    const entry = this.entries.get(id);
    if (!entry || this.lease.isStale(entry.takenAtMs) || !isSameDigest(entry.digest, presented)) return undefined;
    if (this.lease.isOlderThan(entry.takenAtMs, entry.maxAgeMs)) return undefined;
    if (entry.expiresAt && entry.expiresAt <= now) return undefined;
    return entry.identity;
  }

  takeTicket(): Ticket {
    return this.lease.takeTicket();
  }

  /** Ignores a row when the feed has reported any change since its ticket (TOCTOU). */
  remember(id: string, key: VerifiedKey<Identity>, ticket: Ticket): void {
    if (!this.lease.isCurrent(ticket)) return;
    const { digest, identity, expiresAt, maxAgeMs = Infinity } = key;
    this.entries.set(id, { digest, identity, expiresAt, maxAgeMs, takenAtMs: ticket.takenAtMs });
  }

  evict(id: string): void {
    this.entries.delete(id);
  }

  evictAll(): void {
    this.entries.clear();
  }
}
