// The code of the threads of hashing-threads.ts. An error ends the thread and fails its task.

import { createHash, createHmac, pbkdf2Sync, scryptSync, timingSafeEqual } from 'node:crypto';
import { getPriority, setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import bcrypt from 'bcrypt';
import { argon2id } from 'hash-wasm';
import { BCRYPT_MAX_BYTES, parseForeignHash, type HashOf } from './foreign-hash.js';

export interface PasswordThread {
  readonly niceness: number;
}

// On Linux this lowers the priority of the calling thread only, so that requests precede hashes when all cores are
// busy. Only root may raise a priority, so it is never raised.
if (process.platform === 'linux') setPriority(Math.max(getPriority(), (workerData as PasswordThread).niceness));

interface Hashing {
  readonly name: 'hash';
  readonly password: string;
  readonly cost: number;
}

export interface Verification {
  readonly name: 'verify';
  readonly password: string;
  readonly passwordHash: string;
  /** Costs of additional hashes, which hide the cost of the stored one. */
  readonly padding: readonly number[];
}

function verifyOwnHash({ password, passwordHash, padding }: Verification): boolean {
  const matches = bcrypt.compareSync(password, passwordHash);
  for (const cost of padding) bcrypt.hashSync(password, cost);
  return matches;
}

interface ForeignVerification {
  readonly name: 'verifyForeign';
  readonly password: string;
  readonly passwordHash: string;
}

async function verifyForeignHash(task: ForeignVerification): Promise<boolean> {
  const foreign = parseForeignHash(task.passwordHash);
  const password = Buffer.from(task.password);
  if (foreign.algorithm === 'bcrypt') return verifyBcrypt(password, foreign);
  const found = await deriveDigest(password, foreign);
  return found.length === foreign.digest.length && timingSafeEqual(found, foreign.digest);
}

/**
 * Truncates at 72 bytes, as other systems do. They differ in what follows a NUL, so a password with one never matches.
 */
function verifyBcrypt(password: Buffer, foreign: HashOf<'bcrypt'>): boolean {
  const prepared = prehash(password, foreign);
  return !prepared.includes(0) && bcrypt.compareSync(prepared.subarray(0, BCRYPT_MAX_BYTES), foreign.standard);
}

function prehash(password: Buffer, foreign: HashOf<'bcrypt'>): Buffer {
  if (foreign.prehash === 'none') return password;
  const hash = foreign.prehash === 'hmac-sha256-base64' ? createHmac('sha256', foreign.salt) : createHash('sha256');
  return Buffer.from(hash.update(password).digest(foreign.prehash === 'sha256-hex' ? 'hex' : 'base64'));
}

async function deriveDigest(password: Buffer, foreign: HashOf<'argon2id' | 'scrypt' | 'pbkdf2'>): Promise<Uint8Array> {
  const { salt, digest } = foreign;
  if (foreign.algorithm === 'pbkdf2')
    return pbkdf2Sync(password, salt, foreign.iterations, digest.length, foreign.hash);
  const { parallelism } = foreign;
  if (foreign.algorithm === 'scrypt') {
    const { cost, blockSize } = foreign;
    // The memory that OpenSSL may use; its default of 32 MiB is too little for Werkzeug.
    const maxmem = 128 * blockSize * (cost + parallelism + 3);
    return scryptSync(password, salt, digest.length, { cost, blockSize, parallelization: parallelism, maxmem });
  }
  const { memoryKib: memorySize, iterations } = foreign;
  const parameters = { password, salt, iterations, memorySize, parallelism };
  return argon2id({ ...parameters, hashLength: digest.length, outputType: 'binary' });
}

export type PasswordTask = Hashing | Verification | ForeignVerification;

async function runTask(task: PasswordTask): Promise<string | boolean> {
  if (task.name === 'hash') return bcrypt.hashSync(task.password, task.cost);
  return task.name === 'verify' ? verifyOwnHash(task) : verifyForeignHash(task);
}

parentPort?.on('message', (task: PasswordTask) => void runTask(task).then((answer) => parentPort?.postMessage(answer)));
