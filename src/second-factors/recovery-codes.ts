import { Secret } from 'otpauth';
import { computeDigest, generateSecretBytes, type SecretDigest } from '../crypto/secret.js';

const COUNT = 10;
/** 120 bits: a plain digest is enough from 112 bits on (ASVS 6.5.2). */
const CODE_BYTES = 15;
const FORMAT = /^[a-z2-7]{24}$/;
const GROUP = /.{4}(?!$)/g;

/** @returns ten codes, each as six groups of four letters and digits */
export function generateRecoveryCodes(): string[] {
  return Array.from({ length: COUNT }, () => {
    const bytes = Uint8Array.from(generateSecretBytes(CODE_BYTES));
    return new Secret({ buffer: bytes.buffer }).base32.toLowerCase().replace(GROUP, '$&-');
  });
}

/** @returns undefined for text that is not in the format of a recovery code; case, blanks and dashes do not count */
export function toRecoveryDigest(code: string): SecretDigest | undefined {
  const plain = code.toLowerCase().replace(/[\s-]/g, '');
  return FORMAT.test(plain) ? computeDigest(plain) : undefined;
}
