import { Injectable } from '@nestjs/common';
import { Environment } from '../config/environment.js';
import type { Encrypted } from '../crypto/encryption.js';
import { exportPrivateKey, importKeyPair, type KeyPair } from '../crypto/key-pair.js';
import { SecretBox } from '../crypto/secret-box.js';

/**
 * Encrypts private keys for the database. The `kid` is authenticated with them, and the public key is derived from them:
 * without SECRET_KEY, a writer of the database cannot add a key.
 */
@Injectable()
export class KeyVault {
  private readonly box: SecretBox;

  constructor(environment: Environment) {
    this.box = new SecretBox(environment, 'platform-auth signing keys v1');
  }

  encrypt(pair: KeyPair): Encrypted {
    return this.box.encrypt(exportPrivateKey(pair), pair.kid);
  }

  /** @returns undefined when neither SECRET_KEY nor SECRET_KEY_PREVIOUS decrypts it */
  decrypt(kid: string, encrypted: Buffer): { readonly pair: KeyPair; readonly isOutdated: boolean } | undefined {
    const opened = this.box.decrypt(encrypted, kid);
    if (!opened) return undefined;
    const pair = importKeyPair(opened.plaintext);
    return pair.kid === kid ? { pair, isOutdated: opened.isOutdated } : undefined;
  }
}
