import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import type { Rememberable } from '../access/principals.js';
import { Clock } from '../common/clock.js';
import { Environment } from '../config/environment.js';
import { LeaseAnnouncement } from './propagation.js';

const MAX_REMEMBERED_SECONDS = 60;

/** Whether the caller wants a verdict that PostgreSQL gives after the request arrived (RFC 9111 §5.2.1.4). */
export function wantsFreshVerdict({ headers }: Request): boolean {
  const control = headers['cache-control'];
  return control !== undefined && /\bno-cache\b/i.test(control);
}

/** Tells a verifier how long it may use a verdict, and whether it may remember it (docs/decisions/0044). */
@Injectable()
export class Freshness {
  constructor(
    private readonly environment: Environment,
    private readonly announcement: LeaseAnnouncement,
    private readonly clock: Clock,
  ) {}

  /**
   * Sets the headers of the response to an accepted `validate-*` request that asked for a fresh verdict.
   * @param rememberable undefined when each use has to reach this service
   */
  setHeaders(request: Request, rememberable: Rememberable | undefined): void {
    if (!wantsFreshVerdict(request)) return;
    const { freshForMs } = this;
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

  /** 0 while revoking calls may not know this replica's lease, and so do not wait for it: the verdict cannot be handed on. */
  private get freshForMs(): number {
    const { revocationLeaseMs, revocationWaitMs } = this.environment;
    if (revocationLeaseMs === 0) return revocationWaitMs;
    return this.announcement.isCurrent ? revocationLeaseMs : 0;
  }
}
