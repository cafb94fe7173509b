import { computeDigest, generateSecret } from '../crypto/secret.js';
import type { KeyColumns } from './key-columns.js';

export interface IssuedKey {
  /** The only occurrence of the key in plain text. */
  readonly key: string;
  readonly columns: Omit<KeyColumns, 'id' | 'expiresAt' | 'createdAt' | 'updatedAt'>;
}

/** @param prefix lets secret scanners recognise a leaked key */
export function issueKey(prefix: string): IssuedKey {
  const key = generateSecret(prefix);
  return {
    key,
    columns: {
      keyDigest: computeDigest(key),
      previousKeyDigest: null,
      previousKeyExpiresAt: null,
      rotatedAt: null,
      rotatedByRequest: null,
      overlapEndedAt: null,
      revokedAt: null,
      revokedByRequest: null,
      lastUsedAt: null,
      lastUsedFor: null,
    },
  };
}
