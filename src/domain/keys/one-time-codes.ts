/**
 * One-time codes, which a person reads aloud, types or opens as a link. Invariants: a code works once, until it expires
 * or is cancelled, by the clock of PostgreSQL; the database has an HMAC of it, because a plain digest of 45 bits could be
 * reversed.
 * Links by e-mail carry 256 bits and are deleted with their use (users/one-time-tokens.ts).
 */
import { Column } from 'typeorm';
import { computeMac, deriveKey, generateSecretBytes } from '../../foundation/crypto/secret.js';

/** The columns of a table of codes. A used or cancelled code stays as a row, so that operators see it. */
export abstract class OneTimeCodeColumns {
  @Column({ name: 'code_mac', type: 'bytea' }) codeMac!: Buffer;
  @Column({ name: 'created_at', type: 'timestamptz' }) createdAt!: Date;
  @Column({ name: 'expires_at', type: 'timestamptz' }) expiresAt!: Date;
  @Column({ name: 'cancelled_at', type: 'timestamptz', nullable: true }) cancelledAt!: Date | null;
  @Column({ name: 'used_at', type: 'timestamptz', nullable: true }) usedAt!: Date | null;
}

export interface CodeFilter {
  readonly householdId: string | undefined;
  readonly isOpen: boolean;
}

export const CODE_STATES = ['open', 'used', 'cancelled', 'expired'] as const;
export type CodeState = (typeof CODE_STATES)[number];

type CodeEnds = Pick<OneTimeCodeColumns, 'usedAt' | 'cancelledAt' | 'expiresAt'>;

export function determineCodeState({ usedAt, cancelledAt, expiresAt }: CodeEnds, now: Date): CodeState {
  if (usedAt) return 'used';
  if (cancelledAt) return 'cancelled';
  return expiresAt <= now ? 'expired' : 'open';
}

/** @param moment an SQL expression */
export const isOpenAt = (moment: string): string =>
  `used_at IS NULL AND cancelled_at IS NULL AND expires_at > ${moment}`;

type MacKey = ReturnType<typeof deriveKey>;

/** HMACs of codes. Codes are issued under MASTER_KEY, and also accepted under MASTER_KEY_PREVIOUS. */
export class CodeMacs {
  private readonly current: MacKey;
  private readonly previous: MacKey | undefined;

  constructor(
    { masterKey, masterKeyPrevious }: { masterKey: string; masterKeyPrevious: string | undefined },
    purpose: string,
  ) {
    this.current = deriveKey(masterKey, purpose);
    this.previous = masterKeyPrevious === undefined ? undefined : deriveKey(masterKeyPrevious, purpose);
  }

  computeCurrentMac(text: string): Buffer {
    return computeMac(this.current, text);
  }

  /** @returns the HMAC under each key, the current one first */
  computeMacs(text: string): [Buffer, ...Buffer[]] {
    const current = this.computeCurrentMac(text);
    return this.previous ? [current, computeMac(this.previous, text)] : [current];
  }
}

// A code is nine random characters (45 bits) and the check symbol of Crockford's base 32 (value modulo 37), in two
// groups. Values whose check symbol is neither a letter nor a digit are skipped.

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const RANDOM_CHARACTERS = 9;
const GROUP_LENGTH = 5;
const RANDOM_BYTES = 6;
const CHECK_MODULUS = 37;

/** @returns a code such as `7KQ2M-XV9TB` */
export function generateCode(): string {
  for (;;) {
    const value = generateSecretBytes(RANDOM_BYTES).readUIntBE(0, RANDOM_BYTES) % ALPHABET.length ** RANDOM_CHARACTERS;
    const check = ALPHABET[value % CHECK_MODULUS];
    if (check === undefined) continue;
    const code = encodeValue(value) + check;
    return `${code.slice(0, GROUP_LENGTH)}-${code.slice(GROUP_LENGTH)}`;
  }
}

const LONG_CODE_BYTES = 15;

/** @returns 24 characters (120 bits), for a link or a QR code */
export function generateLongCode(): string {
  const bits = Array.from(generateSecretBytes(LONG_CODE_BYTES), (byte) => byte.toString(2).padStart(8, '0')).join('');
  return bits.replace(/.{5}/g, (group) => ALPHABET[parseInt(group, 2)] ?? '');
}

/** @returns the compared form: in capitals, without hyphens and blanks, with digits for O, I and L */
export function canonicalizeCode(typed: string): string {
  return typed.toUpperCase().replace(/[\s-]/g, '').replaceAll('O', '0').replace(/[IL]/g, '1');
}

function encodeValue(value: number): string {
  return Array.from(
    { length: RANDOM_CHARACTERS },
    (_, index) => ALPHABET[Math.floor(value / ALPHABET.length ** (RANDOM_CHARACTERS - 1 - index)) % ALPHABET.length],
  ).join('');
}
