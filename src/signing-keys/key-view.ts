import type { KeyPair } from '../crypto/key-pair.js';
import type { Algorithm, SigningKeyRow } from './signing-key-statements.js';

/** The signing keys as the database had them at one moment. */
export class KeyView {
  /** Those with state next, active or retired. */
  readonly pairs: ReadonlyMap<string, KeyPair>;
  private readonly kids: ReadonlySet<string>;
  private readonly activeKid: string | undefined;

  /** @param open returns undefined for a key that cannot be decrypted */
  constructor(
    private readonly rows: readonly SigningKeyRow[],
    open: (kid: string, encrypted: Buffer) => KeyPair | undefined,
  ) {
    const pairs = new Map<string, KeyPair>();
    for (const { kid, state, encrypted_private_key: encrypted } of rows) {
      const pair = kid !== null && state !== 'revoked' && encrypted ? open(kid, encrypted) : undefined;
      if (pair) pairs.set(pair.kid, pair);
    }
    this.pairs = pairs;
    this.kids = new Set(rows.flatMap(({ kid }) => kid ?? []));
    this.activeKid = rows.find(({ kid, state }) => kid !== null && state === 'active')?.kid ?? undefined;
  }

  /** Whether a key is active, which may be one that this replica cannot decrypt. */
  get hasActive(): boolean {
    return this.activeKid !== undefined;
  }

  get active(): KeyPair | undefined {
    return this.activeKid === undefined ? undefined : this.pairs.get(this.activeKid);
  }

  /** Also of a revoked key, and of one that this replica cannot decrypt. */
  has(kid: string): boolean {
    return this.kids.has(kid);
  }

  /** Whether this replica cannot decrypt the key, so that it cannot verify its tokens. */
  isUnreadable(kid: string): boolean {
    return this.rows.some((row) => row.kid === kid && row.state !== 'revoked') && !this.pairs.has(kid);
  }

  /** @param since keys that were retired before it are left out */
  list(since: Date): KeyPair[] {
    const shown = this.rows.filter(({ retired_at: retiredAt }) => retiredAt === null || retiredAt > since);
    return shown.flatMap(({ kid }) => this.pairs.get(kid ?? '') ?? []);
  }

  /** Whether a token that was signed with the algorithm since that moment may exist, or soon will. */
  isInUseSince(algorithm: Algorithm, since: Date): boolean {
    const times = this.rows
      .filter((row) => row.algorithm === algorithm)
      .flatMap(({ last_signed_at, created_at, activated_at }) => [last_signed_at, created_at, activated_at]);
    return times.some((time) => time !== null && time > since);
  }
}
