import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import { DataSource } from 'typeorm';
import type { Rememberable } from '../access/principals.js';
import { Clock } from '../common/clock.js';
import { Environment } from '../config/environment.js';
import type { ResponseLocals } from '../problems/problem.filter.js';
import { LeaseAnnouncement } from './propagation.js';

const MAX_REMEMBERED_SECONDS = 60;

/** Whether the caller wants a verdict that PostgreSQL gives after the request arrived (RFC 9111 §5.2.1.4). */
export function wantsFreshVerdict({ headers }: Request): boolean {
  const control = headers['cache-control'];
  return control !== undefined && /\bno-cache\b/i.test(control);
}

/**
 * Tells a verifier how long it may use a fresh verdict, and whether it may remember it (docs/decisions/0044). That is a
 * promise: revoking calls must have known, before anything was read, that this replica gives such ones. Otherwise a
 * revocation that commits between the reading and the answer would not wait for it.
 */
@Injectable()
export class Freshness {
  constructor(
    private readonly environment: Environment,
    private readonly announcement: LeaseAnnouncement,
    private readonly dataSource: DataSource,
    private readonly clock: Clock,
  ) {}

  /** To be called when a question for a fresh verdict arrives, before anything is read. */
  async noteArrival({ res }: Request): Promise<void> {
    // With a lease, the feed announces it. Without one, this is the only promise of this process.
    if (this.environment.revocationLeaseMs === 0) {
      const announced = this.announcement.announceIfDue(this.dataSource).catch(() => undefined);
      // A commit that stalls delays no question while the last announcement still counts.
      if (!this.announcement.isCurrent) await announced;
    }
    if (res) (res.locals as ResponseLocals).couldPromiseOnArrival ??= this.announcement.isCurrent;
  }

  /**
   * Sets the headers of the response to an accepted `validate-*` request that asked for a fresh verdict.
   * @param rememberable undefined when each use has to reach this service
   */
  setHeaders(request: Request, rememberable: Rememberable | undefined): void {
    if (!wantsFreshVerdict(request)) return;
    const { couldPromiseOnArrival = false } = (request.res?.locals ?? {}) as ResponseLocals;
    const freshForMs = couldPromiseOnArrival && this.announcement.isCurrent ? this.announcement.promiseMs : 0;
    const now = this.clock.now().getTime();
    const lifeMs = (rememberable?.expiresAt?.getTime() ?? Infinity) - now;
    const expiresIn = Math.max(0, Math.min(MAX_REMEMBERED_SECONDS, Math.floor(lifeMs / 1_000)));
    const isLeased = this.environment.revocationLeaseMs > 0 && freshForMs > 0;
    const canRemember = isLeased && rememberable !== undefined && expiresIn > 0;
    request.res?.set({
      'X-Platform-Remember': canRemember ? 'yes' : 'no',
      'X-Platform-Expires-In': String(expiresIn),
      'X-Platform-Fresh-For-Ms': String(freshForMs),
    });
  }
}
