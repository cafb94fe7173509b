import { createCipheriv, createDecipheriv, randomBytes, type KeyObject } from 'node:crypto';
import type { Environment } from '../config/environment.js';
import { computeMac, deriveKey } from './secret.js';

/** Nonce, tag and ciphertext of AES-256-GCM. */
export type Encrypted = Buffer & { readonly __brand: 'Encrypted' };

const CIPHER = 'aes-256-gcm';
/** A random nonce of 96 bits is safe for the few rows a year that a key encrypts (NIST SP 800-38D §8.2.2). */
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const MARK_BYTES = 8;

interface Opened {
  readonly plaintext: Buffer;
  /** Whether MASTER_KEY_PREVIOUS encrypted it, so that it has to be encrypted again. */
  readonly isOutdated: boolean;
}

/**
 * Encrypts for one purpose with a key derived from MASTER_KEY, and also decrypts what MASTER_KEY_PREVIOUS encrypted.
 */
export class SecretBox {
  /** Stored beside a ciphertext, to tell which key encrypted it without decrypting it. */
  readonly keyMark: Buffer;
  private readonly current: KeyObject;
  private readonly previous: KeyObject | undefined;

  constructor({ masterKey, masterKeyPrevious }: Pick<Environment, 'masterKey' | 'masterKeyPrevious'>, purpose: string) {
    this.current = deriveKey(masterKey, purpose);
    this.previous = masterKeyPrevious === undefined ? undefined : deriveKey(masterKeyPrevious, purpose);
    this.keyMark = computeMac(this.current, 'key mark').subarray(0, MARK_BYTES);
  }

  /** @param context authenticated with the plaintext; decryption needs the same one */
  encrypt(plaintext: Buffer, context: string): Encrypted {
    return encrypt(this.current, plaintext, context);
  }

  /** @returns undefined when neither key decrypts it, the context differs, or it was changed */
  decrypt(encrypted: Buffer, context: string): Opened | undefined {
    const current = decrypt(this.current, encrypted, context);
    const plaintext = current ?? (this.previous && decrypt(this.previous, encrypted, context));
    return plaintext && { plaintext, isOutdated: current === undefined };
  }
}

function encrypt(key: KeyObject, plaintext: Buffer, context: string): Encrypted {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES }).setAAD(Buffer.from(context));
  const ciphertext = Buffer.concat([cipher.update(plaintext), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), ciphertext]) as Encrypted;
}

function decrypt(key: KeyObject, encrypted: Buffer, context: string): Buffer | undefined {
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
