import type { Rememberable } from '../access/principals.js';

export type RefusalReason = 'unknown' | 'wrong_key' | 'revoked' | 'expired';

export type Verdict<Identity> =
  | {
      readonly valid: true;
      readonly identity: Identity;
      /** Not during the overlap of a rotation, when each use has to reach this service, nor from the cache. */
      readonly rememberable?: Rememberable | undefined;
    }
  | { readonly valid: false; readonly reason: RefusalReason; readonly identity?: Identity };
