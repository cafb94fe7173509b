import {
  applyDecorators,
  Injectable,
  mixin,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import type { Request, Response } from 'express';
import type { Observable } from 'rxjs';
import { ApiProblems } from '../access/api-problems.js';
import { addressOf } from '../common/client-address.js';
import { problems } from '../common/problems.js';
import { AddressThrottle, type ThrottledRoute } from './address-throttle.js';
import { networkOf } from './network-of.js';
import { rateLimitHeaders } from './too-many-requests.js';

/**
 * Limits how often one address may call a route, whatever comes of it, and documents the 429. No guard: those are the
 * doors. It comes after them, and before the body is validated.
 */
export const Throttled = (route: ThrottledRoute) =>
  applyDecorators(UseInterceptors(throttleOf(route)), ApiProblems(problems.tooManyRequests));

function throttleOf(route: ThrottledRoute): Type<NestInterceptor> {
  @Injectable()
  class Throttle implements NestInterceptor {
    constructor(private readonly throttle: AddressThrottle) {}

    async intercept(context: ExecutionContext, next: CallHandler): Promise<Observable<unknown>> {
      const http = context.switchToHttp();
      const { budget, remaining, forMs } = await this.throttle.spend(
        route,
        networkOf(addressOf(http.getRequest<Request>())),
      );
      http.getResponse<Response>().set(rateLimitHeaders(budget, remaining, forMs));
      return next.handle();
    }
  }
  return mixin(Throttle);
}
