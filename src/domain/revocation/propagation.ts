// The wait between the commit of a revocation and its response. A promise is the time for which a replica may answer
// from its cache, or a verifier may use an answer, without asking again. Each process announces its longest promise
// before it gives the first (`LeaseAnnouncement`), and each revoking call waits for the longest announced one
// (`Propagation`). Invariant: when the call has answered, every promise from before its commit is over.

import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import { DataSource } from 'typeorm';
import type { Rememberable } from '../../foundation/access/principals.js';
import { Clock } from '../../foundation/common/clock.js';
import { createId } from '../../foundation/common/ids.js';
import { Environment } from '../../foundation/config/environment.js';
import { MAX_LEASE_MS } from '../../foundation/config/limits.js';
import { isWriteRefusal } from '../../foundation/database/database-failure.js';
import { Database, type Statement } from '../../foundation/database/database.js';
import { Log, toErrorFields } from '../../foundation/logging/log.js';
import { ProblemException } from '../../foundation/problems/problems.js';
import { SYSTEM_CLOCKS, type Clocks } from '../../../packages/lease/src/lease.js';

/** An announcement counts for a minute, which is six heartbeats. */
const HEARTBEAT_INTERVAL_MS = 10_000;
/** Half of that minute, so that this replica gives no promise for which others no longer wait. */
const MAX_SILENCE_MS = 30_000;
/** How long a verifier may use an answer of a replica without a lease. */
const UNLEASED_PROMISE_MS = 500;
/** Allows for the clocks of two machines to differ in rate. */
const CLOCK_RATE_MARGIN = 0.02;
/** Allows for a timer to fire a millisecond early. */
const TIMER_MARGIN_MS = 2;

const ANNOUNCE = `INSERT INTO replica_leases (id, lease_ms) VALUES ($1, $2)
  ON CONFLICT (id) DO UPDATE SET lease_ms = EXCLUDED.lease_ms, seen_at = now()`;
const LONGEST_PROMISE: Statement = {
  name: 'replica_leases_longest',
  text: `SELECT COALESCE(max(lease_ms), 0) AS longest FROM replica_leases
    WHERE seen_at > now() - interval '60 seconds'`,
};

interface Connection {
  query(text: string, values: unknown[]): Promise<unknown>;
}

/** Announces the longest promise of this process, before the first one and then as a heartbeat. */
export class LeaseAnnouncement {
  readonly promiseMs: number;
  private readonly id = createId();
  private announcedAtMs = -Infinity;
  private announcedAtWallMs = -Infinity;
  private announcing: Promise<void> | undefined;

  /** @param leaseMs 0 without a lease; even then verifiers get a promise */
  constructor(
    leaseMs: number,
    private readonly clocks: Clocks = SYSTEM_CLOCKS,
  ) {
    this.promiseMs = leaseMs > 0 ? leaseMs : UNLEASED_PROMISE_MS;
  }

  /** Whether revoking calls wait for this replica's promises. Only then may it give any. */
  get isCurrent(): boolean {
    return !this.isOlderThan(MAX_SILENCE_MS);
  }

  /** Single flight. @throws when the announcement no longer counts and cannot be repeated */
  async announceIfDue(connection: Connection): Promise<void> {
    if (!this.isOlderThan(HEARTBEAT_INTERVAL_MS)) return;
    this.announcing ??= this.announce(connection).finally(() => (this.announcing = undefined));
    await this.announcing;
  }

  /** To be called for a new connection, because it may lead to a server without the announcement. */
  makeDue(): void {
    this.announcedAtMs = Math.min(this.announcedAtMs, this.clocks.monotonic() - HEARTBEAT_INTERVAL_MS);
  }

  /** The age counts from before the statement was sent, because this process may be suspended meanwhile. */
  private async announce(connection: Connection): Promise<void> {
    const [sentAtMs, sentAtWallMs] = [this.clocks.monotonic(), this.clocks.wall()];
    try {
      await connection.query(ANNOUNCE, [this.id, this.promiseMs]);
      this.announcedAtMs = sentAtMs;
      this.announcedAtWallMs = sentAtWallMs;
    } catch (error) {
      // A database that refuses writes commits no revocation either.
      if (!isWriteRefusal(error) || !this.isCurrent) throw error;
    }
  }

  /** Reads both clocks, because the monotonic one may stop while the machine is suspended. */
  private isOlderThan(ageMs: number): boolean {
    const { clocks, announcedAtMs, announcedAtWallMs } = this;
    return clocks.monotonic() >= announcedAtMs + ageMs || clocks.wall() >= announcedAtWallMs + ageMs;
  }
}

/** @returns how long a revoking call waits, so that every promise of this length is over when it answers */
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

  /** To be called after the commit. Later promises are harmless, because their replicas read after the commit. */
  async awaitPropagation(): Promise<void> {
    const waitMs = computeWaitMs(await this.joinNextRead());
    if (waitMs > 0) await sleep(waitMs);
  }

  /**
   * Runs an act that revokes a key, a session or a membership, and awaits propagation. A refused act waits too, because
   * the earlier call that did the act may still be waiting. 429 and 503 are not verdicts and do not wait.
   * @param waitsOnSuccess false for an act that revokes nothing: only its refusal waits
   */
  async propagateAfter<Result>(act: () => Promise<Result>, { waitsOnSuccess = true } = {}): Promise<Result> {
    try {
      const result = await act();
      if (waitsOnSuccess) await this.awaitPropagation();
      return result;
    } catch (error) {
      const status = error instanceof ProblemException ? error.problem.status : 503;
      if (status !== 429 && status < 500) await this.awaitPropagation();
      throw error;
    }
  }

  /**
   * Calls that arrive during a read share the next one, which begins after their commits. One read at a time, so that
   * while the database stalls, revoking calls hold a single connection of the pool.
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

  /**
   * Assumes the longest possible promise when the announcements cannot be read. A 503 would be wrong, because the
   * revocation is committed.
   */
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

/** Whether the caller asks for a verdict from PostgreSQL that is newer than the request (RFC 9111 §5.2.1.4). */
export function isFreshVerdictWanted({ headers }: Request): boolean {
  const control = headers['cache-control'];
  return control !== undefined && /\bno-cache\b/i.test(control);
}

/**
 * Tells a verifier how long it may use a fresh verdict, and whether it may cache it (docs/decisions/0044). The promise
 * must have been announced before anything was read, or a revocation that commits before the response would not wait
 * for it.
 */
@Injectable()
export class Freshness {
  /** Whether the promise of this replica was announced when each request arrived. */
  private readonly couldPromise = new WeakMap<Request, boolean>();

  constructor(
    private readonly environment: Environment,
    private readonly announcement: LeaseAnnouncement,
    private readonly dataSource: DataSource,
    private readonly clock: Clock,
  ) {}

  /** To be called when a request for a fresh verdict arrives, before anything is read. */
  async noteArrival(request: Request): Promise<void> {
    // With a lease, the feed announces the promises. Without one, this call is the only one that does.
    if (this.environment.revocationLeaseMs === 0) {
      const announced = this.announcement.announceIfDue(this.dataSource).catch(() => undefined);
      // A stalled commit delays no request while the last announcement still counts.
      if (!this.announcement.isCurrent) await announced;
    }
    if (!this.couldPromise.has(request)) this.couldPromise.set(request, this.announcement.isCurrent);
  }

  /**
   * @param rememberable undefined: each use of the key has to reach this service
   * @param isPrevious tells the verifier which key to name when it reports uses
   */
  setHeaders(request: Request, rememberable: Rememberable | undefined, isPrevious = false): void {
    if (!isFreshVerdictWanted(request)) return;
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
