// The wait between the commit of a revocation and its answer, from both sides. A promise is the time for which a replica may
// answer from its cache, or a verifier may use an answer, without another question. Each process announces its longest one
// (`LeaseAnnouncement`) before it gives the first; each call that revokes waits for the longest that was announced
// (`Propagation`). Invariant: once the call has answered, no promise from before its commit is left.

import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import { DataSource } from 'typeorm';
import type { Rememberable } from '../../foundation/access/actor.js';
import { Clock } from '../../foundation/common/clock.js';
import { createId } from '../../foundation/common/ids.js';
import { Environment } from '../../foundation/config/environment.js';
import { MAX_LEASE_MS } from '../../foundation/config/limits.js';
import { isWriteRefusal } from '../../foundation/database/database-failure.js';
import { Database, type Statement } from '../../foundation/database/database.js';
import { Log, toErrorFields } from '../../foundation/logging/log.js';
import { ProblemException } from '../../foundation/problems/problems.js';
import { SYSTEM_CLOCKS, type Clocks } from '../../../packages/lease/src/lease.js';

/** Six heartbeats fit into the minute for which an announcement counts. */
const HEARTBEAT_INTERVAL_MS = 10_000;
/** Half of that minute: this replica gives no promises well before the others stop waiting for it. */
const MAX_SILENCE_MS = 30_000;
/** For how long a verifier may use an answer of a replica that has no lease. */
const UNLEASED_PROMISE_MS = 500;
/** The clocks of two machines may differ in rate. */
const CLOCK_RATE_MARGIN = 0.02;
/** Timers may fire a millisecond early. */
const TIMER_MARGIN_MS = 2;

const ANNOUNCE = `INSERT INTO replica_leases (id, lease_ms) VALUES ($1, $2)
  ON CONFLICT (id) DO UPDATE SET lease_ms = EXCLUDED.lease_ms, seen_at = now()`;
const LONGEST_PROMISE: Statement = {
  name: 'replica_leases_longest',
  text: `SELECT COALESCE(max(lease_ms), 0) AS longest FROM replica_leases WHERE seen_at > now() - interval '60 seconds'`,
};

interface Connection {
  query(text: string, values: unknown[]): Promise<unknown>;
}

/** Announces the longest promise of this process: before the first promise, and then as a heartbeat. */
export class LeaseAnnouncement {
  readonly promiseMs: number;
  private readonly id = createId();
  private announcedAtMs = -Infinity;
  private announcedAtWallMs = -Infinity;
  private announcing: Promise<void> | undefined;

  /** @param leaseMs 0: no lease, and a promise to verifiers all the same */
  constructor(
    leaseMs: number,
    private readonly clocks: Clocks = SYSTEM_CLOCKS,
  ) {
    this.promiseMs = leaseMs > 0 ? leaseMs : UNLEASED_PROMISE_MS;
  }

  /** Whether revoking calls wait for this replica's promises, so that it may give some. */
  get isCurrent(): boolean {
    return !this.isOlderThan(MAX_SILENCE_MS);
  }

  /** Single flight. @throws when the announcement no longer counts and cannot be repeated */
  async announceIfDue(connection: Connection): Promise<void> {
    if (!this.isOlderThan(HEARTBEAT_INTERVAL_MS)) return;
    this.announcing ??= this.announce(connection).finally(() => (this.announcing = undefined));
    await this.announcing;
  }

  /** For a new connection: another server may not have the announcement. */
  makeDue(): void {
    this.announcedAtMs = Math.min(this.announcedAtMs, this.clocks.monotonic() - HEARTBEAT_INTERVAL_MS);
  }

  /** The age is counted from the sending: a process that was frozen meanwhile has an old announcement. */
  private async announce(connection: Connection): Promise<void> {
    const [sentAtMs, sentAtWallMs] = [this.clocks.monotonic(), this.clocks.wall()];
    try {
      await connection.query(ANNOUNCE, [this.id, this.promiseMs]);
      this.announcedAtMs = sentAtMs;
      this.announcedAtWallMs = sentAtWallMs;
    } catch (error) {
      // A database that cannot write cannot commit a revocation either.
      if (!isWriteRefusal(error) || !this.isCurrent) throw error;
    }
  }

  /** By either clock: the monotonic one may stop while the machine is suspended. */
  private isOlderThan(ageMs: number): boolean {
    const { clocks, announcedAtMs, announcedAtWallMs } = this;
    return clocks.monotonic() >= announcedAtMs + ageMs || clocks.wall() >= announcedAtWallMs + ageMs;
  }
}

/** @returns how long a call that revokes waits, so that every promise of this length is over when it answers */
export function computeWaitMs(promiseMs: number): number {
  return promiseMs === 0 ? 0 : Math.ceil(promiseMs * (1 + CLOCK_RATE_MARGIN) + TIMER_MARGIN_MS);
}

@Injectable()
export class Propagation {
  private currentRead: Promise<unknown> = Promise.resolve();
  private nextRead: Promise<number> | undefined;

  constructor(
    private readonly database: Database,
    private readonly log: Log,
  ) {}

  /** To be called after the commit: a replica that announces a promise later reads every key after the commit. */
  async awaitPropagation(): Promise<void> {
    const waitMs = computeWaitMs(await this.joinNextRead());
    if (waitMs > 0) await sleep(waitMs);
  }

  /**
   * Runs an act that ends a key, and awaits propagation, also when the act is refused, because the call that has ended the
   * key may still be waiting. 429 and 503 are not verdicts: they do not wait.
   * @param endsAKey false: only a refusal waits
   */
  async propagateAfter<Result>(act: () => Promise<Result>, { endsAKey = true } = {}): Promise<Result> {
    try {
      const result = await act();
      if (endsAKey) await this.awaitPropagation();
      return result;
    } catch (error) {
      const status = error instanceof ProblemException ? error.problem.status : 503;
      if (status !== 429 && status < 500) await this.awaitPropagation();
      throw error;
    }
  }

  /**
   * Calls that come during a read share the next one, which begins after their commits. One read at a time: while the
   * database stalls, revoking calls hold one connection of the pool, not all of them.
   */
  private joinNextRead(): Promise<number> {
    this.nextRead ??= this.currentRead.then(() => {
      this.nextRead = undefined;
      const read = this.readLongestPromiseMs();
      this.currentRead = read;
      return read;
    });
    return this.nextRead;
  }

  /** The revocation is committed, so a 503 would be wrong: without the announcements, the longest possible promise counts. */
  private async readLongestPromiseMs(): Promise<number> {
    try {
      return (await this.database.row<{ longest: number }>(LONGEST_PROMISE, []))?.longest ?? 0;
    } catch (error) {
      this.log.warn('leases_not_read', { error: toErrorFields(error) });
      return MAX_LEASE_MS;
    }
  }
}

const MAX_REMEMBERED_SECONDS = 60;

/** Whether the caller wants a verdict that PostgreSQL gives after the request arrived (RFC 9111 §5.2.1.4). */
export function wantsFreshVerdict({ headers }: Request): boolean {
  const control = headers['cache-control'];
  return control !== undefined && /\bno-cache\b/i.test(control);
}

/**
 * Tells a verifier how long it may use a fresh verdict, and whether it may remember it (docs/decisions/0044). Revoking calls
 * must have known of that promise before anything was read, or one that commits before the answer would not wait for it.
 */
@Injectable()
export class Freshness {
  /** Questions at whose arrival revoking calls knew the promises of this replica, or not. */
  private readonly couldPromise = new WeakMap<Request, boolean>();

  constructor(
    private readonly environment: Environment,
    private readonly announcement: LeaseAnnouncement,
    private readonly dataSource: DataSource,
    private readonly clock: Clock,
  ) {}

  /** To be called when a question for a fresh verdict arrives, before anything is read. */
  async noteArrival(request: Request): Promise<void> {
    // With a lease, the feed announces it. Without one, this is the only promise of this process.
    if (this.environment.revocationLeaseMs === 0) {
      const announced = this.announcement.announceIfDue(this.dataSource).catch(() => undefined);
      // A commit that stalls delays no question while the last announcement still counts.
      if (!this.announcement.isCurrent) await announced;
    }
    if (!this.couldPromise.has(request)) this.couldPromise.set(request, this.announcement.isCurrent);
  }

  /**
   * Without a `rememberable` each use has to reach this service.
   * @param isPrevious tells the verifier what to report of its uses of the key
   */
  setHeaders(request: Request, rememberable: Rememberable | undefined, isPrevious = false): void {
    if (!wantsFreshVerdict(request)) return;
    const couldPromise = this.couldPromise.get(request) === true && this.announcement.isCurrent;
    const freshForMs = couldPromise ? this.announcement.promiseMs : 0;
    const now = this.clock.now().getTime();
    const lifeMs = (rememberable?.expiresAt?.getTime() ?? Infinity) - now;
    const expiresIn = Math.max(0, Math.min(MAX_REMEMBERED_SECONDS, Math.floor(lifeMs / 1_000)));
    const isLeased = this.environment.revocationLeaseMs > 0 && freshForMs > 0;
    const canRemember = isLeased && rememberable !== undefined && expiresIn > 0;
    request.res?.set({
      'X-Platform-Remember': canRemember ? 'yes' : 'no',
      'X-Platform-Expires-In': String(expiresIn),
      'X-Platform-Fresh-For-Ms': String(freshForMs),
      ...(isPrevious && { 'X-Platform-Key': 'previous' }),
    });
  }
}
