// Runs in the threads of PasswordHasher.

import { pbkdf2Sync, timingSafeEqual } from 'node:crypto';
import { setPriority } from 'node:os';
import bcrypt from 'bcrypt';
import { argon2id } from 'hash-wasm';
import { BCRYPT_MAX_BYTES, parseForeignHash, type ForeignHash } from './foreign-hash.js';

// On Linux this lowers the priority of the calling thread only: requests precede hashes when all cores are busy.
if (process.platform === 'linux') setPriority(10);

export function hash({ password, cost }: { password: string; cost: number }): string {
  return bcrypt.hashSync(password, cost);
}

interface Verification {
  readonly password: string;
  readonly passwordHash: string;
  /** Costs of additional hashes, so that the response time does not reveal the cost of the stored one. */
  readonly padding: readonly number[];
}

export function verify({ password, passwordHash, padding }: Verification): boolean {
  const matches = bcrypt.compareSync(password, passwordHash);
  for (const cost of padding) bcrypt.hashSync(password, cost);
  return matches;
}

export async function verifyForeign(task: { password: string; passwordHash: string }): Promise<boolean> {
  const foreign = parseForeignHash(task.passwordHash);
  const password = Buffer.from(task.password);
  if (foreign.algorithm === 'bcrypt') return verifyBcrypt(password, foreign.standard);
  const found = await derive(password, foreign);
  return found.length === foreign.digest.length && timingSafeEqual(found, foreign.digest);
}

/** Other systems truncate at 72 bytes. They disagree about what follows a NUL, so such a password never matches. */
function verifyBcrypt(password: Buffer, standard: string): boolean {
  return !password.includes(0) && bcrypt.compareSync(password.subarray(0, BCRYPT_MAX_BYTES), standard);
}

async function derive(password: Buffer, foreign: Exclude<ForeignHash, { algorithm: 'bcrypt' }>): Promise<Uint8Array> {
  const { salt, iterations, digest } = foreign;
  if (foreign.algorithm !== 'argon2id')
    return pbkdf2Sync(password, salt, iterations, digest.length, foreign.algorithm.replace('pbkdf2-', ''));
  const { memoryKib: memorySize, parallelism } = foreign;
  const parameters = { password, salt, iterations, memorySize, parallelism };
  return argon2id({ ...parameters, hashLength: digest.length, outputType: 'binary' });
}
