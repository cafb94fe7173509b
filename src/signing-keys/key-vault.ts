import { Injectable } from '@nestjs/common';
import { Environment } from '../config/environment.js';
import { decrypt, encrypt, type Encrypted } from '../crypto/encryption.js';
import { exportPrivateKey, importKeyPair, type KeyPair } from '../crypto/key-pair.js';
import { deriveKey } from '../crypto/secret.js';

const PURPOSE = 'platform-auth signing keys v1';

/**
 * Encrypts private keys for the database. The `kid` is authenticated with them, and the public key is derived from them:
 * without SECRET_KEY, a writer of the database cannot add a key.
 */
@Injectable()
export class KeyVault {
  private readonly current;
  private readonly previous;

  constructor({ secretKey, secretKeyPrevious }: Environment) {
    this.current = deriveKey(secretKey, PURPOSE);
    this.previous = secretKeyPrevious === undefined ? undefined : deriveKey(secretKeyPrevious, PURPOSE);
  }

  encrypt(pair: KeyPair): Encrypted {
    return encrypt(this.current, exportPrivateKey(pair), pair.kid);
  }

  /** @returns undefined when neither SECRET_KEY nor SECRET_KEY_PREVIOUS decrypts it */
  decrypt(kid: string, encrypted: Buffer): { readonly pair: KeyPair; readonly isOutdated: boolean } | undefined {
    const current = decrypt(this.current, encrypted, kid);
    const plaintext = current ?? (this.previous && decrypt(this.previous, encrypted, kid));
    if (!plaintext) return undefined;
    const pair = importKeyPair(plaintext);
    return pair.kid === kid ? { pair, isOutdated: current === undefined } : undefined;
  }
}
