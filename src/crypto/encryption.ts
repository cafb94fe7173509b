import { createCipheriv, createDecipheriv, randomBytes, type KeyObject } from 'node:crypto';

/** Nonce, tag and ciphertext of AES-256-GCM, one after the other. */
export type Encrypted = Buffer & { readonly __brand: 'Encrypted' };

const CIPHER = 'aes-256-gcm';
/** A random nonce of 96 bits (NIST SP 800-38D §8.2.2): a key encrypts a few rows a year. */
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * @param key of 256 bits, for this purpose alone
 * @param context authenticated with the plaintext, and needed to decrypt it
 */
export function encrypt(key: KeyObject, plaintext: Buffer, context: string): Encrypted {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES }).setAAD(Buffer.from(context));
  const ciphertext = Buffer.concat([cipher.update(plaintext), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), ciphertext]) as Encrypted;
}

/** @returns undefined when it was encrypted with another key, for another context, or was changed since */
export function decrypt(key: KeyObject, encrypted: Buffer, context: string): Buffer | undefined {
  if (encrypted.length < NONCE_BYTES + TAG_BYTES) return undefined;
  const nonce = encrypted.subarray(0, NONCE_BYTES);
  const tag = encrypted.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES);
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES })
    .setAAD(Buffer.from(context))
    .setAuthTag(tag);
  const plaintext = decipher.update(encrypted.subarray(NONCE_BYTES + TAG_BYTES));
  try {
    return Buffer.concat([plaintext, decipher.final()]);
  } catch {
    return undefined;
  }
}
