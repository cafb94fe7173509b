import { LRUCache } from 'lru-cache';
import type { RevocationLease, Ticket } from '../../../src/revocation/lease.js';
import type { UserPrincipal } from './principals.js';

/** How long a yes may be remembered, from the moment its question was sent. */
export interface Term {
  /** By the monotonic clock. */
  readonly maxAgeMs: number;
  /** By the wall clock. */
  readonly endsAtWallMs: number;
}

interface Entry extends Term {
  readonly principal: UserPrincipal;
  readonly takenAtMs: number;
}

/** Access tokens of live sessions, by their digests; found by session and by user when those change. */
export class TokenCache {
  private readonly entries: LRUCache<string, Entry>;
  private readonly bySession = new DigestIndex();
  private readonly byUser = new DigestIndex();

  constructor(
    private readonly lease: RevocationLease,
    maxEntries: number,
  ) {
    this.entries = new LRUCache<string, Entry>({
      max: maxEntries,
      dispose: ({ principal }, digest) => {
        this.bySession.delete(principal.sessionId, digest);
        this.byUser.delete(principal.userId, digest);
      },
    });
    // Not for signing keys: one that was revoked is a reset, and the tokens of a retired one live on.
    const evictAll = (): void => this.entries.clear();
    lease.addListener({ kind: 'session', evict: (id) => this.evict(this.bySession.find(id)), evictAll });
    lease.addListener({ kind: 'user', evict: (id) => this.evict(this.byUser.find(id)), evictAll });
  }

  /** @returns undefined when the service must be asked */
  recall(digest: string, nowWallMs: number): UserPrincipal | undefined {
    if (!this.lease.isHeld) return undefined;
    const entry = this.entries.get(digest);
    if (!entry || nowWallMs >= entry.endsAtWallMs) return undefined;
    return this.lease.isOlderThan(entry.takenAtMs, entry.maxAgeMs) ? undefined : entry.principal;
  }

  /** Ignores a token when any change was reported since its ticket (TOCTOU). */
  remember(digest: string, principal: UserPrincipal, term: Term, ticket: Ticket): void {
    if (!this.lease.isCurrent(ticket)) return;
    // First: replacing an entry disposes of the old one, which must not unlist the new one.
    this.entries.delete(digest);
    this.entries.set(digest, { principal, takenAtMs: ticket.takenAtMs, ...term });
    this.bySession.add(principal.sessionId, digest);
    this.byUser.add(principal.userId, digest);
  }

  private evict(digests: readonly string[]): void {
    for (const digest of digests) this.entries.delete(digest);
  }
}

/** Digests by an id. */
class DigestIndex {
  private readonly digests = new Map<string, Set<string>>();

  add(id: string, digest: string): void {
    const known = this.digests.get(id);
    if (known) known.add(digest);
    else this.digests.set(id, new Set([digest]));
  }

  delete(id: string, digest: string): void {
    const known = this.digests.get(id);
    known?.delete(digest);
    if (known?.size === 0) this.digests.delete(id);
  }

  find(id: string): readonly string[] {
    return [...(this.digests.get(id.toLowerCase()) ?? [])];
  }
}
