// Password hashes that other systems made and an import brought: bcrypt, argon2id and PBKDF2. Every parameter that costs
// time or memory is bounded here, at the import and again before each verification (docs/decisions/0051-import.md).

export const BCRYPT_MAX_BYTES = 72;

/** Takes 1.6 s of one core where cost 12 takes 0.2 s. */
const MAX_FOREIGN_BCRYPT_COST = 15;
const MAX_ARGON2_MEMORY_KIB = 128 * 1_024;
const MAX_ARGON2_ITERATIONS = 64;
/** The memory times the passes over it. */
const MAX_ARGON2_WORK_KIB = 1_024 * 1_024;
const MAX_ARGON2_LANES = 16;
/** The iterations times the blocks of the derived key. */
const MAX_PBKDF2_ITERATIONS = 2_500_000;
const MIN_SALT_BYTES = 8;
const MAX_SALT_BYTES = 128;
const MIN_DIGEST_BYTES = 16;
const MAX_DIGEST_BYTES = 64;
const BLOCK_BYTES = { 'pbkdf2-sha256': 32, 'pbkdf2-sha512': 64 } as const;

type Pbkdf2 = keyof typeof BLOCK_BYTES;

export type ForeignHash =
  | { readonly algorithm: 'bcrypt'; readonly standard: string }
  | {
      readonly algorithm: 'argon2id';
      readonly memoryKib: number;
      readonly iterations: number;
      readonly parallelism: number;
      readonly salt: Buffer;
      readonly digest: Buffer;
    }
  | { readonly algorithm: Pbkdf2; readonly iterations: number; readonly salt: Buffer; readonly digest: Buffer };

/** The message never contains the hash. */
export class ForeignHashError extends Error {
  override readonly name = 'ForeignHashError';

  constructor(
    message: string,
    readonly code: 'hash_unsupported' | 'hash_malformed' | 'hash_out_of_bounds',
  ) {
    super(message);
  }
}

// bcrypt writes the unused bits of the last characters of salt and hash as 0: another last character is not bcrypt's.
const BCRYPT = /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{30}[.CGKOSWaeimquy26]$/;
const ARGON2ID = /^\$argon2id\$v=19\$m=(\d{1,10}),t=(\d{1,10}),p=(\d{1,10})\$([^$]+)\$([^$]+)$/;
const DJANGO = /^pbkdf2_sha256\$(\d{1,10})\$([\x21-\x7e]+)\$([^$]+)$/;
const PBKDF2 = /^\$(pbkdf2-sha256|pbkdf2-sha512)\$i=(\d{1,10})\$([^$]+)\$([^$]+)$/;
const SUPPORTED = /^(\$2[aby]\$|\$argon2id\$|pbkdf2_sha256\$|\$pbkdf2-sha(256|512)\$)/;

/** @param maxBcryptCost higher for a hash that this service made elsewhere */
export function parseForeignHash(text: string, maxBcryptCost = MAX_FOREIGN_BCRYPT_COST): ForeignHash {
  const parsed = parseBcrypt(text, maxBcryptCost) ?? parseArgon2id(text) ?? parseDjango(text) ?? parsePbkdf2(text);
  if (parsed) return parsed;
  if (SUPPORTED.test(text)) throw new ForeignHashError('the hash is malformed', 'hash_malformed');
  throw new ForeignHashError(
    'the hash is not bcrypt ($2a$, $2b$, $2y$), argon2id (version 19) or PBKDF2 (SHA-256, SHA-512)',
    'hash_unsupported',
  );
}

export function formatPbkdf2(algorithm: Pbkdf2, iterations: number, saltBase64: string, digestBase64: string): string {
  const [salt, digest] = [saltBase64, digestBase64].map((text) => text.replace(/=+$/, ''));
  return `$${algorithm}$i=${iterations}$${salt}$${digest}`;
}

function parseBcrypt(text: string, maxCost: number): ForeignHash | undefined {
  const [, cost] = BCRYPT.exec(text) ?? [];
  if (cost === undefined) return undefined;
  requireBetween('the bcrypt cost', Number(cost), 4, maxCost);
  // The letters name revisions of implementations that, where correct, compute the same.
  return { algorithm: 'bcrypt', standard: `$2b$${text.slice('$2b$'.length)}` };
}

function parseArgon2id(text: string): ForeignHash | undefined {
  const [, memory, passes, lanes, salt, digest] = ARGON2ID.exec(text) ?? [];
  if (salt === undefined || digest === undefined) return undefined;
  const [memoryKib, iterations, parallelism] = [Number(memory), Number(passes), Number(lanes)];
  requireBetween('the parallelism of argon2id', parallelism, 1, MAX_ARGON2_LANES);
  requireBetween('the memory of argon2id (KiB)', memoryKib, 8 * parallelism, MAX_ARGON2_MEMORY_KIB);
  requireBetween('the number of passes of argon2id', iterations, 1, MAX_ARGON2_ITERATIONS);
  requireBetween('the memory of argon2id times its passes (KiB)', memoryKib * iterations, 1, MAX_ARGON2_WORK_KIB);
  return { algorithm: 'argon2id', memoryKib, iterations, parallelism, ...parseBytes(salt, digest) };
}

function parseDjango(text: string): ForeignHash | undefined {
  const [, iterations, salt, digest] = DJANGO.exec(text) ?? [];
  if (salt === undefined || digest === undefined) return undefined;
  requireBetween('the length of the salt', salt.length, 1, MAX_SALT_BYTES);
  return toPbkdf2('pbkdf2-sha256', Number(iterations), Buffer.from(salt), decodeDigest(digest));
}

function parsePbkdf2(text: string): ForeignHash | undefined {
  const [, algorithm, iterations, salt, digest] = PBKDF2.exec(text) ?? [];
  if (salt === undefined || digest === undefined) return undefined;
  const bytes = parseBytes(salt, digest);
  return toPbkdf2(algorithm as Pbkdf2, Number(iterations), bytes.salt, bytes.digest);
}

function toPbkdf2(algorithm: Pbkdf2, iterations: number, salt: Buffer, digest: Buffer): ForeignHash {
  const blocks = Math.ceil(digest.length / BLOCK_BYTES[algorithm]);
  requireBetween('the number of iterations of PBKDF2', iterations, 1, Math.floor(MAX_PBKDF2_ITERATIONS / blocks));
  return { algorithm, iterations, salt, digest };
}

function parseBytes(salt: string, digest: string): { salt: Buffer; digest: Buffer } {
  const bytes = decodeBase64(salt);
  requireBetween('the length of the salt', bytes.length, MIN_SALT_BYTES, MAX_SALT_BYTES);
  return { salt: bytes, digest: decodeDigest(digest) };
}

function decodeDigest(text: string): Buffer {
  const bytes = decodeBase64(text);
  requireBetween('the length of the hash', bytes.length, MIN_DIGEST_BYTES, MAX_DIGEST_BYTES);
  return bytes;
}

/** Refuses what is not base64, with or without padding: Node.js would skip characters that it does not know. */
function decodeBase64(text: string): Buffer {
  const bytes = Buffer.from(text, 'base64');
  if (bytes.toString('base64').replace(/=+$/, '') !== text.replace(/=+$/, ''))
    throw new ForeignHashError('the hash is malformed', 'hash_malformed');
  return bytes;
}

function requireBetween(what: string, value: number, min: number, max: number): void {
  if (value < min || value > max)
    throw new ForeignHashError(`${what} must be from ${min} to ${max}`, 'hash_out_of_bounds');
}
