/**
 * The codes of enrolments, which people read aloud and type: nine random characters (45 bits) and the check symbol of
 * Crockford's base 32 (value modulo 37), in two groups. Values whose symbol is not a letter or a digit are skipped.
 */
import { generateSecretBytes } from '../crypto/secret.js';

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const RANDOM_CHARACTERS = 9;
const GROUP_LENGTH = 5;
const RANDOM_BYTES = 6;
const CHECK_MODULUS = 37;

/** @returns a code in two groups, as in `7KQ2M-XV9TB` */
export function generateEnrolmentCode(): string {
  for (;;) {
    const value = generateSecretBytes(RANDOM_BYTES).readUIntBE(0, RANDOM_BYTES) % ALPHABET.length ** RANDOM_CHARACTERS;
    const check = ALPHABET[value % CHECK_MODULUS];
    if (check !== undefined) return formatCode(encode(value) + check);
  }
}

/** @returns the code as it is compared: without hyphens and blanks, in capitals, and with digits for O, I and L */
export function canonicalizeCode(typed: string): string {
  return typed.toUpperCase().replace(/[\s-]/g, '').replaceAll('O', '0').replace(/[IL]/g, '1');
}

function encode(value: number): string {
  return Array.from(
    { length: RANDOM_CHARACTERS },
    (_, index) => ALPHABET[Math.floor(value / ALPHABET.length ** (RANDOM_CHARACTERS - 1 - index)) % ALPHABET.length],
  ).join('');
}

function formatCode(code: string): string {
  return `${code.slice(0, GROUP_LENGTH)}-${code.slice(GROUP_LENGTH)}`;
}
