import { fileURLToPath } from 'node:url';
import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import bcrypt from 'bcrypt';
import { Piscina } from 'piscina';
import { ProblemException } from '../common/problem.exception.js';
import { problems } from '../common/problems.js';
import { Environment } from '../config/environment.js';
import { mac } from './secret.js';

/** A bcrypt hash of a password, in the standard `$2b$` form. */
export type PasswordHash = string & { readonly __brand: 'PasswordHash' };

const BCRYPT_MAX_BYTES = 72;
// Changing this word would lock out every account with a password longer than 72 bytes.
const REDUCTION_CONTEXT = 'platform-auth/long-password/v1';

/** How busy the threads are. */
export interface HashingLoad {
  readonly queued: number;
  readonly queueLimit: number;
  readonly running: number;
  readonly threadLimit: number;
}

/**
 * bcrypt in worker threads of its own behind a bounded queue, so that a flood of logins delays neither the
 * event loop nor the thread pool that DNS, files and cryptography share (ASVS 11.4.2).
 */
@Injectable()
export class PasswordHasher implements OnApplicationShutdown {
  private readonly workers: Piscina;
  private underWay = 0;
  private readonly cost: number;
  /** Well formed, at the live cost, and the hash of nothing anyone knows. */
  private readonly nobodysHash: PasswordHash;

  constructor(environment: Environment) {
    this.cost = environment.bcryptCost;
    this.nobodysHash = (bcrypt.genSaltSync(this.cost) + '.'.repeat(31)) as PasswordHash;
    this.workers = new Piscina({
      // Resolved and not imported, so that Jest can map it to the compiled file: a worker thread runs no TypeScript.
      filename: fileURLToPath(import.meta.resolve('./bcrypt.worker.js')),
      minThreads: 1,
      maxThreads: environment.hashThreads,
      maxQueue: environment.hashQueueLimit,
      idleTimeout: 60_000,
    });
  }

  /** @throws {ProblemException} hashing_busy when the queue is full */
  async hash(password: string): Promise<PasswordHash> {
    return (await this.run('hash', { password: reduce(password), cost: this.cost })) as PasswordHash;
  }

  /**
   * One bcrypt, whether there is a hash to compare with or not.
   * @param passwordHash undefined for an account that does not exist
   * @throws {ProblemException} hashing_busy when the queue is full
   */
  async verify(password: string, passwordHash: PasswordHash | undefined): Promise<boolean> {
    const task = { password: reduce(password), passwordHash: passwordHash ?? this.nobodysHash };
    const matches = (await this.run('verify', task)) as boolean;
    return matches && passwordHash !== undefined;
  }

  /** Whether a hash was made at a lower cost than the one configured now. */
  isOutdated(passwordHash: PasswordHash): boolean {
    return bcrypt.getRounds(passwordHash) < this.cost;
  }

  get load(): HashingLoad {
    const { queueSize, options } = this.workers;
    const { maxQueue, maxThreads } = options;
    return {
      queued: queueSize,
      queueLimit: maxQueue,
      running: Math.max(0, this.underWay - queueSize),
      threadLimit: maxThreads,
    };
  }

  async onApplicationShutdown(): Promise<void> {
    await this.workers.destroy();
  }

  private async run(name: string, task: object): Promise<unknown> {
    if (this.workers.queueSize >= this.workers.options.maxQueue) throw new ProblemException(problems.hashingBusy);
    this.underWay += 1;
    try {
      return await (this.workers.run(task, { name }) as Promise<unknown>);
    } finally {
      this.underWay -= 1;
    }
  }
}

/** bcrypt reads 72 bytes and stops at a NUL: what it would cut short is reduced to 44 characters first. */
function reduce(password: string): string {
  const isWhole = Buffer.byteLength(password) <= BCRYPT_MAX_BYTES && !password.includes('\0');
  return isWhole ? password : mac(REDUCTION_CONTEXT, password).toString('base64');
}
