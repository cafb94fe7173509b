import { createPrivateKey, createPublicKey, generateKeyPairSync, hash, type KeyObject } from 'node:crypto';

/** The public half of a key on the curve P-256 (RFC 7518 §6.2.1). */
export interface PublicJwk {
  readonly kty: 'EC';
  readonly crv: 'P-256';
  readonly x: string;
  readonly y: string;
}

/** A key pair for ES256 (RFC 7518 §3.4). */
export interface KeyPair {
  /** The thumbprint of the public key (RFC 7638). */
  readonly kid: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  readonly jwk: PublicJwk;
}

const AS_DER = {
  namedCurve: 'P-256',
  privateKeyEncoding: { format: 'der', type: 'pkcs8' },
  publicKeyEncoding: { format: 'der', type: 'spki' },
} as const;

/**
 * Its kid does not begin with a hyphen, as one in 64 would: `platform-auth keys` takes such a word for an option.
 *
 * The key is imported from its bytes. Node.js 20 shares a lock between a key object that it generated and the job that
 * did it, and may free the job during an export of the key, which holds the lock: the process then stands still for good.
 */
export function generateKeyPair(): KeyPair {
  for (;;) {
    const pair = importKeyPair(generateKeyPairSync('ec', AS_DER).privateKey);
    if (!pair.kid.startsWith('-')) return pair;
  }
}

/** @param pkcs8 as {@link exportPrivateKey} returned it */
export function importKeyPair(pkcs8: Buffer): KeyPair {
  return toKeyPair(createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' }));
}

/** @returns PKCS #8 in DER: a secret */
export function exportPrivateKey({ privateKey }: KeyPair): Buffer {
  return privateKey.export({ format: 'der', type: 'pkcs8' });
}

function toKeyPair(privateKey: KeyObject): KeyPair {
  const publicKey = createPublicKey(privateKey);
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' });
  const jwk: PublicJwk = { kty: 'EC', crv: 'P-256', x, y };
  return { kid: computeThumbprint(jwk), privateKey, publicKey, jwk };
}

/** RFC 7638 §3: the required members, in lexicographic order. */
function computeThumbprint({ crv, kty, x, y }: PublicJwk): string {
  return hash('sha256', JSON.stringify({ crv, kty, x, y }), 'base64url');
}
