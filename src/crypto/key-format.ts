/**
 * The form of our keys: a prefix, 256 random bits as URL-safe text, and six characters of checksum, by which a scanner tells a
 * key from a look-alike without a call. The checksum is the CRC-32 of all that stands before it in base 62, as GitHub has it
 * (github.blog/2021-04-05-behind-githubs-new-authentication-token-formats). Keys from before it have none and stay valid, so
 * the doors do not look at it.
 */
import { crc32 } from 'node:zlib';
import { SECRETS } from '../common/ids.js';
import { generateSecret } from './secret.js';

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
export const CHECKSUM_LENGTH = 6;
const SECRET_LENGTH = 43;
const REFRESH_TOKEN_LENGTH = 112;

/** Of the keys of operators, and of a generated root key. */
export const ADMIN_KEY_PREFIX = 'pa_admin_';

export function generateKey(prefix: string): string {
  return appendChecksum(generateSecret(prefix));
}

export function appendChecksum(text: string): string {
  return text + computeChecksum(text);
}

const KINDS = ['node', 'app', 'admin', 'rt'] as const;

interface FoundKey {
  readonly kind: (typeof KINDS)[number];
  readonly key: string;
}

/** @returns what looks like a key or a refresh token. After a key without a checksum, other text may follow directly. */
export function findKeys(text: string): FoundKey[] {
  if (!text.includes('pa_')) return [];
  return Array.from(text.matchAll(SECRETS)).flatMap(([all, kind = '', rest = '']): FoundKey[] => {
    if (!isKind(kind)) return [];
    const start = all.length - rest.length;
    if (kind === 'rt')
      return rest.length < REFRESH_TOKEN_LENGTH ? [] : [{ kind, key: all.slice(0, start + REFRESH_TOKEN_LENGTH) }];
    const withChecksum = all.slice(0, start + SECRET_LENGTH + CHECKSUM_LENGTH);
    const key = hasChecksum(withChecksum) ? withChecksum : all.slice(0, start + SECRET_LENGTH);
    return [{ kind, key }];
  });
}

function isKind(text: string): text is FoundKey['kind'] {
  return KINDS.some((kind) => kind === text);
}

function hasChecksum(text: string): boolean {
  return text === appendChecksum(text.slice(0, -CHECKSUM_LENGTH));
}

function computeChecksum(text: string): string {
  let rest = crc32(text);
  let checksum = '';
  while (checksum.length < CHECKSUM_LENGTH) {
    checksum = (DIGITS[rest % DIGITS.length] ?? '') + checksum;
    rest = Math.floor(rest / DIGITS.length);
  }
  return checksum;
}
