import { Injectable } from '@nestjs/common';
import { Environment } from '../config/environment.js';
import type { KeyPair } from '../crypto/key-pair.js';
import { computeMac, createSigningKey, isSameDigest } from '../crypto/secret.js';
import { SigningKeysService } from '../signing-keys/signing-keys.service.js';

type Key = KeyPair['publicKey'];

/** `{"alg":"HS256","typ":"JWT"}`: the header of every HS256 token that this service signs. */
const HS256_HEADER = 'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.';
/** Every header of ES256 differs from the others in its `kid` alone. */
const ES256_HEADER = /^\{"alg":"ES256","typ":"JWT","kid":"(?<kid>[\w-]{43})"\}$/;
const ES256_HEADER_LENGTH = encodeEs256Header('x'.repeat(43)).length;
/** `{"`: the payload is a JSON object. */
const PAYLOAD_START = 'eyJ';

/** The options of jsonwebtoken for the signature of a token. */
export interface SigningOptions {
  readonly secret: Key;
  readonly algorithm: 'HS256' | 'ES256';
  readonly keyid?: string;
}

export interface VerificationKey {
  readonly key: Key;
  readonly algorithm: 'HS256' | 'ES256';
}

/**
 * The key of each token, found by the exact text of its header: one text for SECRET_KEY, and one for each signing key. So
 * the algorithm and the key are pinned to each other, and `alg: none`, `jwk`, `jku` and `crit` are ruled out (RFC 8725 §3.1).
 */
@Injectable()
export class TokenKeys {
  private readonly secretKey: Key;
  private readonly previousSecretKey: Key | undefined;

  constructor(
    private readonly environment: Environment,
    private readonly signingKeys: SigningKeysService,
  ) {
    const { secretKey, secretKeyPrevious } = environment;
    this.secretKey = createSigningKey(secretKey);
    this.previousSecretKey = secretKeyPrevious === undefined ? undefined : createSigningKey(secretKeyPrevious);
  }

  /** @throws {ProblemException} unavailable */
  async getSigningOptions(): Promise<SigningOptions> {
    await this.signingKeys.recordSigning();
    if (this.environment.accessTokenAlgorithm === 'HS256') return { secret: this.secretKey, algorithm: 'HS256' };
    const { privateKey, kid } = await this.signingKeys.findActive();
    return { secret: privateKey, algorithm: 'ES256', keyid: kid };
  }

  /**
   * @returns undefined for a token that this service did not sign, or not with a key that is still accepted. The
   * signature is not verified yet
   * @param isFresh asks PostgreSQL for signing keys, not the memory under the lease
   * @throws {ProblemException} unavailable
   */
  async find(token: string, isFresh = false): Promise<VerificationKey | undefined> {
    if (token.startsWith(HS256_HEADER + PAYLOAD_START)) {
      const isAccepted = await this.signingKeys.isAccepted('HS256');
      return isAccepted ? { key: this.chooseSecretKey(token), algorithm: 'HS256' } : undefined;
    }
    const kid = readKid(token);
    if (kid === undefined || !(await this.signingKeys.isAccepted('ES256'))) return undefined;
    const pair = await this.signingKeys.find(kid, isFresh);
    return pair && { key: pair.publicKey, algorithm: 'ES256' };
  }

  private chooseSecretKey(token: string): Key {
    const { secretKey, previousSecretKey } = this;
    return previousSecretKey && isSignedWith(previousSecretKey, token) ? previousSecretKey : secretKey;
  }
}

function isSignedWith(key: Key, token: string): boolean {
  const end = token.lastIndexOf('.');
  return isSameDigest(computeMac(key, token.slice(0, end)), Buffer.from(token.slice(end + 1), 'base64url'));
}

/** @returns undefined unless the header is, byte for byte, one that this service writes */
function readKid(token: string): string | undefined {
  const header = Buffer.from(token.slice(0, ES256_HEADER_LENGTH - 1), 'base64url').toString();
  const { kid } = ES256_HEADER.exec(header)?.groups ?? {};
  return kid !== undefined && token.startsWith(encodeEs256Header(kid) + PAYLOAD_START) ? kid : undefined;
}

function encodeEs256Header(kid: string): string {
  return `${Buffer.from(JSON.stringify({ alg: 'ES256', typ: 'JWT', kid })).toString('base64url')}.`;
}
