import {
  applyDecorators,
  Injectable,
  mixin,
  UseGuards,
  type CanActivate,
  type ExecutionContext,
  type Type,
} from '@nestjs/common';
import type { Request, Response } from 'express';
import { ApiProblems } from '../access/api-problems.js';
import { addressOf } from '../common/client-address.js';
import { problems } from '../common/problems.js';
import { AddressThrottle, type ThrottledRoute } from './address-throttle.js';
import { networkOf } from './network-of.js';
import { rateLimitHeaders } from './too-many-requests.js';

/**
 * For open routes: limits how often one address may call, whatever comes of it, and documents the 429. It comes before
 * the body is validated.
 */
export const Throttled = (route: ThrottledRoute) =>
  applyDecorators(UseGuards(throttleGuard(route)), ApiProblems(problems.tooManyRequests));

function throttleGuard(route: ThrottledRoute): Type<CanActivate> {
  @Injectable()
  class ThrottleGuard implements CanActivate {
    constructor(private readonly throttle: AddressThrottle) {}

    async canActivate(context: ExecutionContext): Promise<true> {
      const http = context.switchToHttp();
      const network = networkOf(addressOf(http.getRequest<Request>()));
      const { budget, remaining, forMs } = await this.throttle.spend(route, network);
      http.getResponse<Response>().set(rateLimitHeaders(budget, remaining, forMs));
      return true;
    }
  }
  return mixin(ThrottleGuard);
}
