import type { Rememberable } from '../access/principals.js';
import type { KeyRefusalReason } from '../common/security-events.js';

export type Verdict<Identity> =
  | {
      readonly valid: true;
      readonly identity: Identity;
      /** Not during the overlap of a rotation, when each use has to reach this service, nor from the cache. */
      readonly rememberable?: Rememberable | undefined;
    }
  | { readonly valid: false; readonly reason: KeyRefusalReason; readonly identity?: Identity };
