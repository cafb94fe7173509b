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
import { getClientAddress } from '../common/client-address.js';
import { problems } from '../common/problems.js';
import { AddressThrottle, type ThrottledCall } from './address-throttle.js';

/**
 * For open routes: limits how often one network may call, whatever the answer is, and documents the 429. Counts before the
 * body is validated.
 */
export const Throttled = (call: ThrottledCall) =>
  applyDecorators(UseGuards(throttleGuard(call)), ApiProblems(problems.tooManyRequests));

function throttleGuard(call: ThrottledCall): Type<CanActivate> {
  @Injectable()
  class ThrottleGuard implements CanActivate {
    constructor(private readonly throttle: AddressThrottle) {}

    async canActivate(context: ExecutionContext): Promise<true> {
      const http = context.switchToHttp();
      const headers = await this.throttle.spend(call, getClientAddress(http.getRequest<Request>()));
      http.getResponse<Response>().set(headers);
      return true;
    }
  }
  return mixin(ThrottleGuard);
}
