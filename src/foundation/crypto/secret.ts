// Random secrets, their digests, and keys derived from MASTER_KEY. Generated secrets have 256 bits and are stored as
// one SHA-256; passwords have little entropy, so the room passwords/ hashes them. Secrets and digests are compared in
// constant time.

import {
  createHmac,
  createSecretKey,
  hash,
  hkdfSync,
  randomBytes,
  randomInt,
  timingSafeEqual,
  type KeyObject,
} from 'node:crypto';
import { crc32 } from 'node:zlib';
import { KEY_KINDS } from '../common/key-kinds.js';
import { SECRETS } from '../common/redaction.js';

/** SHA-256 of a generated secret, which must have at least 256 bits of entropy (ASVS 11.4.2). */
export type SecretDigest = Buffer & { readonly __brand: 'SecretDigest' };

const SECRET_BYTES = 32;
const MAX_RANDOM = 2 ** 32;

export function generateSecretBytes(count = SECRET_BYTES): Buffer {
  return randomBytes(count);
}

/** @param prefix lets secret scanners find the secret @returns 256 random bits as URL-safe text */
export function generateSecret(prefix = ''): string {
  return prefix + generateSecretBytes().toString('base64url');
}

/** @returns a random number from 0 to 1, for jitter and the choice of ports */
export function generateFraction(): number {
  return randomInt(MAX_RANDOM + 1) / MAX_RANDOM;
}

export function computeDigest(secret: string | Buffer): SecretDigest {
  return hash('sha256', secret, 'buffer') as SecretDigest;
}

export function isSameDigest(left: Buffer, right: Buffer): boolean {
  return left.length === right.length && timingSafeEqual(left, right);
}

/** Compares secrets of any lengths in constant time, by their digests. */
export function isSameSecret(left: string, right: string): boolean {
  return isSameDigest(computeDigest(left), computeDigest(right));
}

/** Derives a key for one purpose from the master secret (HKDF, RFC 5869). */
export function deriveKey(masterSecret: string, purpose: string): KeyObject {
  return createSecretKey(Buffer.from(hkdfSync('sha256', masterSecret, '', purpose, SECRET_BYTES)));
}

/** @returns the key that signs access tokens, to be imported once and not at every signature */
export function createSigningKey(masterSecret: string): KeyObject {
  return createSecretKey(masterSecret, 'utf8');
}

/** HMAC-SHA-256 (RFC 2104). */
export function computeMac(key: KeyObject | string, message: Buffer | string): Buffer {
  return createHmac('sha256', key).update(message).digest();
}

// The form of our keys: a prefix, 256 random bits as URL-safe text, and a checksum of six characters, by which a
// scanner tells a key from a look-alike offline. The checksum is the CRC-32 in base 62 of all that precedes it, as
// GitHub has it (github.blog/2021-04-05-behind-githubs-new-authentication-token-formats); doors ignore it.

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
export const CHECKSUM_LENGTH = 6;
export const SECRET_LENGTH = 43;
const REFRESH_TOKEN_LENGTH = 112;

export function generateKey(prefix: string): string {
  return appendChecksum(generateSecret(prefix));
}

/** Scanners and `platform-auth leaked` recognise the root key, because it has the form of an operator's key. */
export function generateVariable(name: string): string {
  return name === 'ADMIN_API_KEY' ? generateKey(KEY_KINDS.operator.keyPrefix) : generateSecret();
}

export function appendChecksum(text: string): string {
  return text + computeChecksum(text);
}

interface FoundKey {
  /** The word of its prefix: `node` for `pa_node_`. */
  readonly kind: string;
  readonly key: string;
}

/** Finds keys and refresh tokens in a text by their checksums. */
export function findKeys(text: string): FoundKey[] {
  if (!text.includes('pa_')) return [];
  return Array.from(text.matchAll(SECRETS)).flatMap(([all, kind = '', rest = '']): FoundKey[] => {
    const length = kind === 'rt' ? REFRESH_TOKEN_LENGTH : SECRET_LENGTH + CHECKSUM_LENGTH;
    // The match may continue into the text that follows the key.
    const key = all.slice(0, all.length - rest.length + length);
    return hasChecksum(key) ? [{ kind, key }] : [];
  });
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

/** The keys that count, current and former; one that is not set or cannot be read is undefined. */
type PlatformKeys = Readonly<
  Record<'secretKey' | 'secretKeyPrevious' | 'masterKey' | 'masterKeyPrevious', string | undefined>
>;

/** Whether a service that holds the SECRET_KEY, or its former value, holds a master key with it. */
export function isMasterKeyShared({
  secretKey,
  secretKeyPrevious,
  masterKey,
  masterKeyPrevious,
}: PlatformKeys): boolean {
  const handedOut = [secretKey, secretKeyPrevious].filter((key) => key !== undefined);
  const own = [masterKey, masterKeyPrevious].filter((key) => key !== undefined);
  return own.some((key) => handedOut.some((other) => isSameSecret(key, other)));
}
