/**
 * Hashes and compares passwords in worker threads behind a bounded queue that is fair between networks, so that a flood
 * of logins delays neither the event loop nor the thread pool that DNS, files and cryptography share (ASVS 11.4.2).
 * Invariants: no password is truncated; an unknown account costs as much as a wrong password, except for imported
 * hashes. test/api/auth/login.spec.ts fails without the threads, test/foundation/throttling/flood.spec.ts without the
 * fair queue.
 */
import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import bcrypt from 'bcrypt';
import { FairQueue, getWidestNetwork, type Ticket } from '../../foundation/common/fair-queue.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { Environment } from '../../foundation/config/environment.js';
import { computeMac } from '../../foundation/crypto/secret.js';
import { MetricsRegistry } from '../../foundation/metrics/metrics-registry.js';
import { BCRYPT_MAX_BYTES, ForeignHashError, parseForeignHash } from './foreign-hash.js';
import { HashingThreads } from './hashing-threads.js';
import type { PasswordTask } from './password.worker.js';

/** Either our own, in the `$2b$` form of bcrypt, or an imported one in another form. */
export type PasswordHash = string & { readonly __brand: 'PasswordHash' };

/** An imported `$2b$` hash is stored as the equivalent `$2y$`, because its password must be verified unreduced. */
export const OWN_PREFIX = '$2b$';
/** The hash of an account without a password. No password matches it; a login costs that of an unknown account. */
export const NO_PASSWORD = '!' as PasswordHash;
/** A stored hash in neither form is replaced by the dummy hash, so that its response time does not differ. */
const OWN_FORM = /^\$2b\$\d\d\$[./A-Za-z0-9]{53}$/;
// Changing this text would lock out every account whose password is longer than 72 bytes.
const REDUCTION_CONTEXT = 'platform-auth/long-password/v1';
/** Shorter than the TTL of the login throttle's reservations. */
const MAX_WAIT_MS = 20_000;

interface Waiting {
  readonly start: () => void;
  readonly refuse: () => void;
  isRefused: boolean;
}

export function hasPassword(passwordHash: PasswordHash): boolean {
  return !passwordHash.startsWith(NO_PASSWORD);
}

@Injectable()
export class PasswordHasher implements OnApplicationShutdown {
  private readonly queue: FairQueue<Waiting>;
  private readonly maxThreads: number;
  private readonly cost: number;
  /** The network of each password in a thread. */
  private readonly running: string[] = [];
  /**
   * Has the configured cost and matches no known password. The comparison with it hides that an account does not exist.
   */
  private readonly dummyHash: PasswordHash;

  constructor(
    environment: Environment,
    metrics: MetricsRegistry,
    private readonly threads: HashingThreads,
  ) {
    this.cost = environment.bcryptCost;
    this.maxThreads = environment.hashThreads;
    this.dummyHash = (bcrypt.genSaltSync(this.cost) + '.'.repeat(31)) as PasswordHash;
    this.queue = new FairQueue(environment.hashQueueLimit);
    metrics.addGauge('hashing_queued', 'Passwords that wait for a thread.', () => this.queue.size);
    metrics.addGauge('hashing_queue_limit', 'Maximum of waiting passwords.', () => this.queue.limit);
    metrics.addGauge('hashing_running', 'Passwords that a thread hashes.', () => this.running.length);
    metrics.addGauge('hashing_threads_limit', 'Maximum of hashing threads.', () => this.maxThreads);
  }

  async hashPassword(password: string, ticket: Ticket): Promise<PasswordHash> {
    return this.runInThread<PasswordHash>({ name: 'hash', password: reduceToLimit(password), cost: this.cost }, ticket);
  }

  /**
   * Takes the same time for an unknown account and for our own hashes of any lower cost, so that it reveals no accounts
   * (enumeration). An imported hash takes the time of its own form.
   * @param passwordHash undefined for an account that does not exist
   */
  async comparePassword(password: string, passwordHash: PasswordHash | undefined, ticket: Ticket): Promise<boolean> {
    if (passwordHash !== undefined && isVerifiableForeign(passwordHash))
      return this.runInThread<boolean>({ name: 'verifyForeign', password, passwordHash }, ticket);
    const own = passwordHash !== undefined && OWN_FORM.test(passwordHash) ? passwordHash : undefined;
    const compared = own ?? this.dummyHash;
    const padding = this.listPadding(compared);
    const task = { name: 'verify', password: reduceToLimit(password), passwordHash: compared, padding } as const;
    return (await this.runInThread<boolean>(task, ticket)) && own !== undefined;
  }

  isOutdated(passwordHash: PasswordHash): boolean {
    return !passwordHash.startsWith(OWN_PREFIX) || bcrypt.getRounds(passwordHash) < this.cost;
  }

  async onApplicationShutdown(): Promise<void> {
    await this.threads.end();
  }

  /**
   * @returns the costs of additional hashes that raise the work to the configured cost: 2^c + 2^c + … + 2^(C-1) = 2^C
   */
  private listPadding(passwordHash: PasswordHash): number[] {
    const cost = bcrypt.getRounds(passwordHash);
    return Array.from({ length: Math.max(0, this.cost - cost) }, (_, index) => cost + index);
  }

  private async runInThread<Result>(task: PasswordTask, ticket: Ticket): Promise<Result> {
    const network = getWidestNetwork(ticket);
    if (this.running.length >= this.maxThreads) await this.wait(ticket);
    else this.running.push(network);
    try {
      return await this.threads.run<Result>(task);
    } finally {
      this.running.splice(this.running.indexOf(network), 1);
      let next = this.queue.shift();
      while (next?.isRefused) next = this.queue.shift();
      next?.start();
    }
  }

  private wait(ticket: Ticket): Promise<void> {
    const network = getWidestNetwork(ticket);
    return new Promise((resolve, reject) => {
      const refuse = (): void => {
        waiting.isRefused = true;
        clearTimeout(timer);
        reject(new ProblemException(problems.hashingBusy));
      };
      const start = (): void => {
        clearTimeout(timer);
        this.running.push(network);
        resolve();
      };
      const timer = setTimeout(refuse, MAX_WAIT_MS);
      const waiting: Waiting = { start, refuse, isRefused: false };
      this.queue.push(waiting, ticket, !this.running.includes(network))?.refuse();
    });
  }
}

/** Checks the bounds again, because another program could have stored a hash that occupies a thread for hours. */
function isVerifiableForeign(passwordHash: string): boolean {
  if (passwordHash.startsWith(OWN_PREFIX)) return false;
  try {
    parseForeignHash(passwordHash);
    return true;
  } catch (error) {
    if (error instanceof ForeignHashError) return false;
    throw error;
  }
}

/** bcrypt reads 72 bytes and stops at a NUL, so a password that it would truncate is reduced to 44 characters first. */
function reduceToLimit(password: string): string {
  const fits = Buffer.byteLength(password) <= BCRYPT_MAX_BYTES && !password.includes('\0');
  return fits ? password : computeMac(REDUCTION_CONTEXT, password).toString('base64');
}
