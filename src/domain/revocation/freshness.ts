// Tells a verifier that asked for a fresh verdict how long it may use it, and whether it may cache it.

import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import { DataSource } from 'typeorm';
import { isFreshVerdictWanted } from '../../foundation/access/doors.js';
import type { Rememberable } from '../../foundation/access/principals.js';
import { Clock } from '../../foundation/common/clock.js';
import { Environment } from '../../foundation/config/environment.js';
import { LeaseAnnouncement } from './lease-announcement.js';

const MAX_REMEMBERED_SECONDS = 60;

/**
 * The promise must have been announced before anything was read, or a revocation that commits before the response would
 * not wait for it (docs/decisions/0044).
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
