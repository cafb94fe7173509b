// Password hashes of other systems, which an import brought: bcrypt, argon2id, scrypt and PBKDF2 as those systems write
// them. Every parameter that costs time or memory is bounded here, at the import and again before each verification
// (docs/decisions/0051-import.md).

export const BCRYPT_MAX_BYTES = 72;

/** Takes 1.6 s of a core on which cost 12 takes 0.2 s. */
const MAX_FOREIGN_BCRYPT_COST = 15;
const MAX_ARGON2_MEMORY_KIB = 128 * 1_024;
const MAX_ARGON2_ITERATIONS = 64;
/** Limit of the memory times the passes over it. */
const MAX_ARGON2_WORK_KIB = 1_024 * 1_024;
/** Applies to argon2id and scrypt. */
const MAX_PARALLELISM = 16;
/** With r = 1 OpenSSL refuses N of 65,536 and more. */
const MIN_SCRYPT_BLOCK_SIZE = 2;
const MAX_SCRYPT_BLOCK_SIZE = 32;
/** Limit of N times r in units of 128 bytes: 128 MiB. */
const MAX_SCRYPT_MEMORY = 2 ** 20;
/** Limit of N times r and p. */
const MAX_SCRYPT_WORK = 2 ** 21;
/** Limit of the iterations times the blocks of the derived key. */
const MAX_PBKDF2_ITERATIONS = 2_500_000;
const MIN_SALT_BYTES = 8;
const MAX_SALT_BYTES = 128;
const MIN_DIGEST_BYTES = 16;
const MAX_DIGEST_BYTES = 64;
const BLOCK_BYTES = { sha1: 20, sha256: 32, sha512: 64 } as const;

type Digest = keyof typeof BLOCK_BYTES;

/**
 * How the other system shortened a password for bcrypt, which truncates at 72 bytes. The HMAC has the salt as its key.
 */
type Prehash = 'none' | 'sha256-hex' | 'sha256-base64' | 'hmac-sha256-base64';

type DerivedKey<Algorithm, Numbers extends string> = Readonly<Record<Numbers, number>> & {
  readonly algorithm: Algorithm;
  readonly salt: Buffer;
  readonly digest: Buffer;
};

type ForeignHash =
  | { readonly algorithm: 'bcrypt'; readonly prehash: Prehash; readonly salt: string; readonly standard: string }
  | DerivedKey<'argon2id', 'memoryKib' | 'iterations' | 'parallelism'>
  | DerivedKey<'scrypt', 'cost' | 'blockSize' | 'parallelism'>
  | (DerivedKey<'pbkdf2', 'iterations'> & { readonly hash: Digest });

export type HashOf<Algorithm> = Extract<ForeignHash, { algorithm: Algorithm }>;

export class ForeignHashError extends Error {
  override readonly name = 'ForeignHashError';

  constructor(
    message: string,
    readonly code: 'hash_unsupported' | 'hash_malformed' | 'hash_out_of_bounds',
  ) {
    super(message);
  }
}

/** The patterns for names in the braces of a form; any other name is a number. */
const GROUPS: Readonly<Record<string, string>> = {
  revision: '[aby]',
  cost: '\\d\\d',
  rounds: '\\d{1,2}',
  // The last characters of salt and digest have unused bits, which bcrypt writes as 0, so only some characters are
  // possible there.
  bcryptSalt: '[./A-Za-z0-9]{21}[.Oeu]',
  bcryptDigest: '[./A-Za-z0-9]{30}[.CGKOSWaeimquy26]',
  hash: 'sha1|sha256|sha512',
  salt: '[\\x21-\\x7e]+',
  digest: '[^$]+',
};

const BCRYPT_FORMS: readonly (readonly [RegExp, Prehash])[] = [
  [compileForm('$2{revision}${cost}${bcryptSalt}{bcryptDigest}'), 'none'],
  // Django
  [compileForm('bcrypt$$2{revision}${cost}${bcryptSalt}{bcryptDigest}'), 'none'],
  [compileForm('bcrypt_sha256$$2{revision}${cost}${bcryptSalt}{bcryptDigest}'), 'sha256-hex'],
  // passlib, before 1.7.3 and since
  [compileForm('$bcrypt-sha256$2{revision},{rounds}${bcryptSalt}${bcryptDigest}'), 'sha256-base64'],
  [compileForm('$bcrypt-sha256$v=2,t=2{revision},r={rounds}${bcryptSalt}${bcryptDigest}'), 'hmac-sha256-base64'],
];

type Encoding = 'base64' | 'hex' | 'utf8';

/** Each form, with the encodings of its salt and its digest. */
const DERIVED_KEY_FORMS: readonly (readonly [RegExp, Encoding, Encoding])[] = [
  [compileForm('$argon2id$v=19$m={memory},t={iterations},p={parallelism}${salt}${digest}'), 'base64', 'base64'],
  // formatPbkdf2
  [compileForm('$pbkdf2-{hash}$i={iterations}${salt}${digest}'), 'base64', 'base64'],
  // passlib, which omits the name of SHA-1
  [compileForm('$pbkdf2-{hash}${iterations}${salt}${digest}'), 'base64', 'base64'],
  [compileForm('$pbkdf2${iterations}${salt}${digest}'), 'base64', 'base64'],
  // Django
  [compileForm('argon2$argon2id$v=19$m={memory},t={iterations},p={parallelism}${salt}${digest}'), 'base64', 'base64'],
  [compileForm('pbkdf2_{hash}${iterations}${salt}${digest}'), 'utf8', 'base64'],
  [compileForm('scrypt${n}${salt}${r}${parallelism}${digest}'), 'utf8', 'base64'],
  // Werkzeug (Flask)
  [compileForm('pbkdf2:{hash}:{iterations}${salt}${digest}'), 'utf8', 'hex'],
  [compileForm('scrypt:{n}:{r}:{parallelism}${salt}${digest}'), 'utf8', 'hex'],
];

/** A hash that begins like a supported form, but matches none, is malformed and not unsupported. */
const SUPPORTED =
  /^(\$2[aby]\$|bcrypt(_sha256)?\$|\$bcrypt-sha256\$|(argon2)?\$argon2id\$|\$?pbkdf2[-_:]sha(1|256|512)[$:]|\$pbkdf2\$|scrypt[$:])/;

/** @param maxBcryptCost may be higher for a hash that another platform-auth made */
export function parseForeignHash(text: string, maxBcryptCost = MAX_FOREIGN_BCRYPT_COST): ForeignHash {
  const parsed = parseBcrypt(text, maxBcryptCost) ?? parseDerivedKey(text);
  if (parsed) return parsed;
  if (SUPPORTED.test(text)) throw new ForeignHashError('the hash is malformed', 'hash_malformed');
  throw new ForeignHashError(
    'the hash is not bcrypt, argon2id (version 19), scrypt or PBKDF2 in a form that docs/operations/users.md lists',
    'hash_unsupported',
  );
}

export function formatPbkdf2(algorithm: string, iterations: number, saltBase64: string, digestBase64: string): string {
  const [salt, digest] = [saltBase64, digestBase64].map((text) => text.replace(/=+$/, ''));
  return `$${algorithm}$i=${iterations}$${salt}$${digest}`;
}

function compileForm(form: string): RegExp {
  const toGroup = (_: string, name: string): string => `(?<${name}>${GROUPS[name] ?? '\\d{1,10}'})`;
  return new RegExp(`^${form.replaceAll('$', '\\$$').replace(/\{(\w+)\}/g, toGroup)}$`);
}

function parseBcrypt(text: string, maxCost: number): ForeignHash | undefined {
  for (const [pattern, prehash] of BCRYPT_FORMS) {
    const { groups } = pattern.exec(text) ?? {};
    if (!groups) continue;
    const { cost = groups.rounds ?? '', bcryptSalt: salt = '', bcryptDigest = '' } = groups;
    refuseOutOfRange('the bcrypt cost', Number(cost), 4, maxCost);
    // The letters name revisions of implementations, which compute the same where they are correct.
    return { algorithm: 'bcrypt', prehash, salt, standard: `$2b$${cost.padStart(2, '0')}$${salt}${bcryptDigest}` };
  }
  return undefined;
}

function parseDerivedKey(text: string): ForeignHash | undefined {
  for (const [pattern, saltEncoding, digestEncoding] of DERIVED_KEY_FORMS) {
    const { groups } = pattern.exec(text) ?? {};
    if (!groups) continue;
    const key = { salt: decodeBytes(groups.salt, saltEncoding), digest: decodeBytes(groups.digest, digestEncoding) };
    // A salt in text is chosen by the application, and may be short.
    const minSaltLength = saltEncoding === 'utf8' ? 1 : MIN_SALT_BYTES;
    refuseOutOfRange('the length of the salt', key.salt.length, minSaltLength, MAX_SALT_BYTES);
    refuseOutOfRange('the length of the hash', key.digest.length, MIN_DIGEST_BYTES, MAX_DIGEST_BYTES);
    const { memory, n, r, hash = 'sha1' } = groups;
    const [iterations, parallelism] = [Number(groups.iterations), Number(groups.parallelism)];
    if (memory !== undefined)
      return boundArgon2id({ algorithm: 'argon2id', ...key, memoryKib: Number(memory), iterations, parallelism });
    if (n !== undefined)
      return boundScrypt({ algorithm: 'scrypt', ...key, cost: Number(n), blockSize: Number(r), parallelism });
    return boundPbkdf2({ algorithm: 'pbkdf2', ...key, hash: hash as Digest, iterations });
  }
  return undefined;
}

function boundArgon2id(hash: HashOf<'argon2id'>): ForeignHash {
  const { memoryKib, iterations, parallelism } = hash;
  refuseOutOfRange('the parallelism of argon2id', parallelism, 1, MAX_PARALLELISM);
  refuseOutOfRange('the memory of argon2id (KiB)', memoryKib, 8 * parallelism, MAX_ARGON2_MEMORY_KIB);
  refuseOutOfRange('the number of passes of argon2id', iterations, 1, MAX_ARGON2_ITERATIONS);
  refuseOutOfRange('the memory of argon2id times its passes (KiB)', memoryKib * iterations, 1, MAX_ARGON2_WORK_KIB);
  return hash;
}

function boundScrypt(hash: HashOf<'scrypt'>): ForeignHash {
  const { cost, blockSize, parallelism } = hash;
  refuseOutOfRange('r of scrypt', blockSize, MIN_SCRYPT_BLOCK_SIZE, MAX_SCRYPT_BLOCK_SIZE);
  refuseOutOfRange('p of scrypt', parallelism, 1, MAX_PARALLELISM);
  refuseOutOfRange('N of scrypt', cost, 2, MAX_SCRYPT_MEMORY / blockSize);
  refuseOutOfRange('N of scrypt times r and p', cost * blockSize * parallelism, 1, MAX_SCRYPT_WORK);
  if (!Number.isInteger(Math.log2(cost)))
    throw new ForeignHashError('N of scrypt must be a power of two', 'hash_out_of_bounds');
  return hash;
}

function boundPbkdf2(hash: HashOf<'pbkdf2'>): ForeignHash {
  const blocks = Math.ceil(hash.digest.length / BLOCK_BYTES[hash.hash]);
  refuseOutOfRange(
    'the number of iterations of PBKDF2',
    hash.iterations,
    1,
    Math.floor(MAX_PBKDF2_ITERATIONS / blocks),
  );
  return hash;
}

/** Refuses text in another encoding, because Node.js would skip unknown characters or stop at them. */
function decodeBytes(text = '', encoding: Encoding): Buffer {
  // passlib writes `.` for the `+` of base64, and Django adds padding.
  const plain = encoding === 'base64' ? text.replaceAll('.', '+').replace(/=+$/, '') : text;
  const bytes = Buffer.from(plain, encoding);
  const written = bytes.toString(encoding);
  if ((encoding === 'base64' ? written.replace(/=+$/, '') : written) !== plain)
    throw new ForeignHashError('the hash is malformed', 'hash_malformed');
  return bytes;
}

function refuseOutOfRange(what: string, value: number, min: number, max: number): void {
  if (value < min || value > max)
    throw new ForeignHashError(`${what} must be from ${min} to ${max}`, 'hash_out_of_bounds');
}
