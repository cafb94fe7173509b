import { applyDecorators, Injectable, UseGuards, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { Request, Response } from 'express';
import { LRUCache } from 'lru-cache';
import { getClientAddress, toNetworks } from '../common/network.js';
import { ApiProblems } from '../problems/api-problems.js';
import { ProblemException, problems, THROTTLE_PROBLEMS } from '../problems/problems.js';
import { ExhaustedBuckets, toRateLimitHeaders } from './exhausted-buckets.js';
import { RateLimitBuckets, type RateLimitBucket, type ThrottleEvent } from './rate-limit-buckets.js';
import { listExhausted, ThrottleWindows, type ExhaustedLimit } from './throttle-windows.js';

const MAX_BUSY_NETWORKS = 10_000;

/** Policies that count calls by network. `admin-key` counts refused keys only, the others count every call. */
const CALL_POLICIES = ['registration', 'refresh', 'second-factor-address', 'mail', 'link', 'admin-key'] as const;
type CallPolicy = (typeof CALL_POLICIES)[number];

/** Counts calls by network or recipient. Unlike a guess (guess-throttles.ts), no call is refunded. */
@Injectable()
export class Throttle {
  private readonly busyRefusals = new LRUCache<string, number>({ max: MAX_BUSY_NETWORKS });

  constructor(
    private readonly buckets: RateLimitBuckets,
    private readonly exhausted: ExhaustedBuckets,
    private readonly windows: ThrottleWindows,
  ) {}

  /**
   * @returns the RateLimit header fields
   * @throws {ProblemException} too_many_requests; unavailable without the counters; hashing_busy when too many calls wait
   */
  async countCall(policy: CallPolicy, address: string | undefined): Promise<Record<string, string>> {
    const networks = toNetworks(address);
    const buckets = this.buckets.createBuckets(policy, { networks });
    const [row] = await this.windows.spendPoints(buckets, { networks, isKnown: false });
    return row ? toRateLimitHeaders(buckets[0], row) : {};
  }

  /**
   * Counts requested mails by recipient, alike for addresses without an account (enumeration).
   * @param recipients canonical e-mail addresses
   * @throws {ProblemException} too_many_requests; unavailable without the counters; hashing_busy when too many calls wait
   */
  async countMails(recipients: readonly string[], address: string | null): Promise<void> {
    const buckets = [...new Set(recipients)].flatMap((account) =>
      this.buckets.createBuckets('mail-account', { account }),
    );
    await this.windows.spendPoints(buckets, { networks: toNetworks(address), isKnown: false });
  }

  /**
   * Counts actions with a valid credential of which each writes a row and an audit event: logins of an operator at the
   * console, rotations that a node asks for itself, and what a user does about households.
   * @param id of the operator, the node, or the user
   * @throws {ProblemException} too_many_requests; unavailable without the counters; hashing_busy when too many calls wait
   */
  async countAction(policy: 'console-login' | 'node-rotation' | 'household-action', id: string): Promise<void> {
    const buckets = this.buckets.createBuckets(policy, { account: id });
    await this.windows.spendPoints(buckets, { networks: [''], isKnown: false });
  }

  /** Reads which limits refuse calls or guesses of a network now, and counts nothing. */
  async listExhaustedLimits(address: string): Promise<ExhaustedLimit[]> {
    const networks = toNetworks(address);
    const policies = [...CALL_POLICIES, 'login-address', 'enrolment-address'] as const;
    const buckets = policies.flatMap((policy) => this.buckets.createBuckets(policy, { networks }));
    return listExhausted(buckets, await this.windows.readWindows(buckets.map(({ key }) => key)));
  }

  /**
   * Refuses a network that floods this replica's password queue. Each replica has its own queue, and so its own count.
   * @throws {ProblemException} too_many_requests
   */
  async refuseBusyNetwork(event: ThrottleEvent, address: string | null): Promise<void> {
    await this.exhausted.refuseAny(this.createBusyBuckets(address).map((bucket) => ({ ...bucket, event })));
  }

  /** @param error counts if it is `hashing_busy`; any other error is ignored */
  countBusyRefusal(error: unknown, address: string | null): void {
    if (!(error instanceof ProblemException && error.problem === problems.hashingBusy)) return;
    for (const bucket of this.createBusyBuckets(address)) {
      const { key, limit } = bucket;
      const count = (this.busyRefusals.get(key) ?? 0) + 1;
      this.busyRefusals.set(key, count, { ttl: limit.seconds * 1_000, noUpdateTTL: true });
      if (count >= limit.points) this.exhausted.remember(bucket, this.busyRefusals.getRemainingTTL(key));
    }
  }

  private createBusyBuckets(address: string | null): RateLimitBucket[] {
    return this.buckets.createBuckets('hashing-busy', { networks: toNetworks(address) });
  }
}

const PolicyOfRoute = Reflector.createDecorator<CallPolicy>();

@Injectable()
class ThrottleGuard implements CanActivate {
  constructor(
    private readonly reflector: Reflector,
    private readonly throttle: Throttle,
  ) {}

  async canActivate(context: ExecutionContext): Promise<true> {
    const http = context.switchToHttp();
    const policy = this.reflector.get(PolicyOfRoute, context.getHandler());
    const headers = await this.throttle.countCall(policy, getClientAddress(http.getRequest<Request>()));
    http.getResponse<Response>().set(headers);
    return true;
  }
}

/**
 * Limits the calls of one network before the body is validated, and documents both refusals. For public routes except
 * logins (guess-throttles.ts), and for routes that write a row without asking for a proof.
 */
export const Throttled = (policy: CallPolicy) =>
  applyDecorators(PolicyOfRoute(policy), UseGuards(ThrottleGuard), ApiProblems(...THROTTLE_PROBLEMS));
