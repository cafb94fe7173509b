import { LRUCache } from 'lru-cache';
import type { RevocationLease, Ticket } from '../../../packages/lease/src/lease.js';
import type { AnyUserPrincipal } from './principals.js';

/** How long a yes may be remembered, from the moment its question was sent. */
export interface Term {
  /** The age by the monotonic clock. */
  readonly maxAgeMs: number;
  /** The end by the wall clock. */
  readonly endsAtWallMs: number;
}

export interface RememberedToken extends Term {
  readonly identity: AnyUserPrincipal;
  readonly takenAtMs: number;
}

/** Access tokens of live sessions by their digests, indexed by session, user and each pair of their chains for their changes. */
export class TokenCache {
  private readonly entries: LRUCache<string, RememberedToken>;
  private readonly bySession = new DigestIndex();
  private readonly byUser = new DigestIndex();
  private readonly byApp = new DigestIndex();

  constructor(
    private readonly lease: RevocationLease,
    maxEntries: number,
  ) {
    this.entries = new LRUCache<string, RememberedToken>({
      max: maxEntries,
      dispose: ({ identity }, digest) => {
        this.bySession.delete(identity.sessionId, digest);
        this.byUser.delete(identity.userId, digest);
        for (const appId of listAppIds(identity)) this.byApp.delete(appId, digest);
      },
    });
    // Called for a reset. Changes of signing keys need no index: the revocation of one is a reset, and the tokens of a
    // retired one stay valid.
    const evictAll = (): void => this.entries.clear();
    lease.addListener({ kind: 'session', evict: (id) => this.evict(this.bySession.find(id)), evictAll });
    lease.addListener({ kind: 'user', evict: (id) => this.evict(this.byUser.find(id)), evictAll });
    lease.addListener({ kind: 'app', evict: (id) => this.evict(this.byApp.find(id)), evictAll });
  }

  /** May return a token that must not be used any more: it was valid once, and no change of it was reported since. */
  find(digest: string): RememberedToken | undefined {
    return this.entries.get(digest);
  }

  isUsable({ takenAtMs, maxAgeMs, endsAtWallMs }: RememberedToken, nowWallMs: number): boolean {
    return this.lease.isHeld && nowWallMs < endsAtWallMs && !this.lease.isOlderThan(takenAtMs, maxAgeMs);
  }

  /** Ignores a token when any change was reported since its ticket (TOCTOU). */
  remember(digest: string, identity: AnyUserPrincipal, term: Term, ticket: Ticket): void {
    if (!this.lease.isCurrent(ticket)) return;
    // The old entry goes first: disposing of it later would remove the new one from the index.
    this.forget(digest);
    this.entries.set(digest, { identity, takenAtMs: ticket.takenAtMs, ...term });
    this.bySession.add(identity.sessionId, digest);
    this.byUser.add(identity.userId, digest);
    for (const appId of listAppIds(identity)) this.byApp.add(appId, digest);
  }

  forget(digest: string): void {
    this.entries.delete(digest);
  }

  private evict(digests: readonly string[]): void {
    for (const digest of digests) this.forget(digest);
  }
}

function listAppIds(identity: AnyUserPrincipal): readonly string[] {
  return identity.caller === null ? [] : identity.chain.map(({ appId }) => appId);
}

export class DigestIndex {
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
