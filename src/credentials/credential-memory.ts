import { LRUCache } from 'lru-cache';
import { sameDigest, type SecretDigest } from '../crypto/secret.js';
import type { Forgetful, RevocationLease } from './revocation-lease.js';

interface Known<Identity> {
  readonly digest: SecretDigest;
  readonly identity: Identity;
  readonly expiresAt: Date | null;
}

/** Proves that nothing changed between a read and {@link CredentialMemory.remember}. */
export type Ticket = number & { readonly __brand: 'Ticket' };

/** The credentials of one table that the database accepted: only a yes is remembered, and only while the lease is held. */
export class CredentialMemory<Identity extends object> implements Forgetful {
  private readonly known: LRUCache<string, Known<Identity>>;

  /** @param most how many credentials are remembered; those that were not used for the longest time go first */
  constructor(
    private readonly lease: RevocationLease,
    most: number,
  ) {
    this.known = new LRUCache({ max: most });
    lease.add(this);
  }

  get size(): number {
    return this.known.size;
  }

  /** @returns whose key it is; undefined means that the database must be asked */
  recall(id: string, presented: SecretDigest, now: Date): Identity | undefined {
    if (!this.lease.isHeld) return undefined;
    const known = this.known.get(id);
    if (!known || !sameDigest(known.digest, presented)) return undefined;
    if (known.expiresAt && known.expiresAt <= now) return undefined;
    return known.identity;
  }

  /** To be taken before the row is read. */
  ticket(): Ticket {
    return this.lease.version as Ticket;
  }

  /** A row that was read before a change that has been heard of since is not kept. */
  remember(id: string, known: Known<Identity>, ticket: Ticket): void {
    if (this.lease.version === ticket) this.known.set(id, known);
  }

  forget(credentialId: string): void {
    this.known.delete(credentialId);
  }

  forgetAll(): void {
    this.known.clear();
  }
}
