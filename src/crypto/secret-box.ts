import type { KeyObject } from 'node:crypto';
import type { Environment } from '../config/environment.js';
import { decrypt, encrypt, type Encrypted } from './encryption.js';
import { computeMac, deriveKey } from './secret.js';

const MARK_BYTES = 8;

export interface Opened {
  readonly plaintext: Buffer;
  /** Encrypted with SECRET_KEY_PREVIOUS: to be encrypted again. */
  readonly isOutdated: boolean;
}

/** Encrypts for one purpose with a key of SECRET_KEY. What the key of SECRET_KEY_PREVIOUS encrypted is decrypted too. */
export class SecretBox {
  /** Tells what this key encrypted from what another one did, without decrypting it. */
  readonly keyMark: Buffer;
  private readonly current: KeyObject;
  private readonly previous: KeyObject | undefined;

  constructor({ secretKey, secretKeyPrevious }: Pick<Environment, 'secretKey' | 'secretKeyPrevious'>, purpose: string) {
    this.current = deriveKey(secretKey, purpose);
    this.previous = secretKeyPrevious === undefined ? undefined : deriveKey(secretKeyPrevious, purpose);
    this.keyMark = computeMac(this.current, 'key mark').subarray(0, MARK_BYTES);
  }

  /** @param context authenticated with the plaintext, and needed to decrypt it */
  encrypt(plaintext: Buffer, context: string): Encrypted {
    return encrypt(this.current, plaintext, context);
  }

  /** @returns undefined when neither key decrypts it, when it is for another context, or was changed since */
  decrypt(encrypted: Buffer, context: string): Opened | undefined {
    const current = decrypt(this.current, encrypted, context);
    const plaintext = current ?? (this.previous && decrypt(this.previous, encrypted, context));
    return plaintext && { plaintext, isOutdated: current === undefined };
  }
}
