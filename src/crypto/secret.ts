// Random secrets, their digests and keys derived from SECRET_KEY. Generated secrets have 256 bits and are stored as one
// SHA-256; passwords have little entropy, and are in passwords/. Secrets and digests are compared in constant time.

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

/** SHA-256 of a generated secret. Only secrets with ≥ 256 bits of entropy may be stored in this form (ASVS 11.4.2). */
export type SecretDigest = Buffer & { readonly __brand: 'SecretDigest' };

const SECRET_BYTES = 32;
const MAX_RANDOM = 2 ** 32;

export function generateSecretBytes(count = SECRET_BYTES): Buffer {
  return randomBytes(count);
}

/** @returns a new secret as URL-safe text, with a prefix that secret scanners can find */
export function generateSecret(prefix = ''): string {
  return prefix + generateSecretBytes().toString('base64url');
}

/** @returns a random number from 0 to 1, for delays with jitter and free ports */
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

/** @returns the master secret as the key that signs access tokens, to be imported once and not at every signature */
export function createSigningKey(masterSecret: string): KeyObject {
  return createSecretKey(masterSecret, 'utf8');
}

/** HMAC-SHA-256 (RFC 2104). */
export function computeMac(key: KeyObject | string, message: Buffer | string): Buffer {
  return createHmac('sha256', key).update(message).digest();
}
