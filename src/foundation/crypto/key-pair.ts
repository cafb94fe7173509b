import { createPrivateKey, createPublicKey, generateKeyPairSync, hash, type KeyObject } from 'node:crypto';

/** A public key on the curve P-256 (RFC 7518 §6.2.1). */
interface PublicJwk {
  readonly kty: 'EC';
  readonly crv: 'P-256';
  readonly x: string;
  readonly y: string;
}

export interface KeyPair {
  /** The thumbprint of the public key (RFC 7638). */
  readonly kid: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  readonly jwk: PublicJwk;
}

/** Skips keys whose `kid` begins with a hyphen, which `platform-auth keys` would read as an option. */
export function generateKeyPair(): KeyPair {
  for (;;) {
    const pair = importKeyPair(generatePrivateKey());
    if (!pair.kid.startsWith('-')) return pair;
  }
}

export function importKeyPair(pkcs8: Buffer): KeyPair {
  const privateKey = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' });
  const publicKey = createPublicKey(privateKey);
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' });
  const jwk: PublicJwk = { kty: 'EC', crv: 'P-256', x, y };
  return { kid: computeThumbprint(jwk), privateKey, publicKey, jwk };
}

/** @returns PKCS #8 in DER, which is a secret */
export function exportPrivateKey({ privateKey }: KeyPair): Buffer {
  return privateKey.export({ format: 'der', type: 'pkcs8' });
}

/**
 * Returns PKCS #8 instead of a KeyObject, whose JWK export can deadlock on Node.js 20: it holds a mutex that the
 * finalizer of the generation locks, and a garbage collection during the export runs that finalizer.
 */
function generatePrivateKey(): Buffer {
  return generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    publicKeyEncoding: { format: 'der', type: 'spki' },
    privateKeyEncoding: { format: 'der', type: 'pkcs8' },
  }).privateKey;
}

/** The required members in lexicographic order (RFC 7638 §3). */
function computeThumbprint({ crv, kty, x, y }: PublicJwk): string {
  return hash('sha256', JSON.stringify({ crv, kty, x, y }), 'base64url');
}
