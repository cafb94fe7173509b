import { Injectable } from '@nestjs/common';
import type { KeyKindName } from '../../foundation/common/key-kinds.js';
import type { SecretDigest } from '../../foundation/crypto/secret.js';
import type { KeyColumns } from './key-record.js';
import type { LastUses } from './last-uses.js';

/** What routes that are not about one kind need of a store. */
interface AnyKeyStore {
  readonly verifier: { readonly lastUses: LastUses };
  findOwners(digests: readonly SecretDigest[]): Promise<{ readonly row: KeyColumns; readonly owner: string }[]>;
}

/** The stores of all kinds: each adds itself when it is made. */
@Injectable()
export class KeyStores {
  private readonly stores = new Map<KeyKindName, AnyKeyStore>();

  addStore(kind: KeyKindName, store: AnyKeyStore): void {
    this.stores.set(kind, store);
  }

  getStore(kind: KeyKindName): AnyKeyStore {
    const store = this.stores.get(kind);
    if (!store) throw new Error(`No module provides the keys of the kind ${kind}`);
    return store;
  }
}
