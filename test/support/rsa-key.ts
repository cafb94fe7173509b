import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto';

export function generateRsaKey(modulusLength: number): KeyObject {
  const { privateKey } = generateKeyPairSync('rsa', {
    modulusLength,
    publicKeyEncoding: { format: 'pem', type: 'spki' },
    privateKeyEncoding: { format: 'pem', type: 'pkcs8' },
  });
  return createPrivateKey(privateKey);
}
