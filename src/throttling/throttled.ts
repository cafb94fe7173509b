import { applyDecorators, Injectable, UseGuards, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { Request, Response } from 'express';
import { ApiProblems } from '../problems/api-problems.js';
import { getClientAddress } from '../common/client-address.js';
import { problems } from '../problems/problems.js';
import { AddressThrottle, type ThrottledCall } from './address-throttle.js';

const Call = Reflector.createDecorator<ThrottledCall>();

@Injectable()
class ThrottleGuard implements CanActivate {
  constructor(
    private readonly reflector: Reflector,
    private readonly throttle: AddressThrottle,
  ) {}

  async canActivate(context: ExecutionContext): Promise<true> {
    const http = context.switchToHttp();
    const call = this.reflector.get(Call, context.getHandler());
    const headers = await this.throttle.spend(call, getClientAddress(http.getRequest<Request>()));
    http.getResponse<Response>().set(headers);
    return true;
  }
}

/**
 * For public routes, and for routes that write a row without asking for a proof: limits the calls of one network, counted
 * before the body is validated, and documents the 429.
 */
export const Throttled = (call: ThrottledCall) =>
  applyDecorators(Call(call), UseGuards(ThrottleGuard), ApiProblems(problems.tooManyRequests));
