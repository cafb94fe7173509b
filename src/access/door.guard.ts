import { mixin, type CanActivate, type ExecutionContext, type Type, Injectable } from '@nestjs/common';
import type { Request, Response } from 'express';
import { ProblemException } from '../common/problem.exception.js';
import { problems } from '../common/problems.js';
import type { RequestOutcome } from '../common/request-outcome.js';
import { refuseUnknownFields } from '../common/unknown-fields.js';
import { Environment } from '../config/environment.js';
import { Doors } from './doors.js';
import { presentedTarget } from './presented-target.js';
import type { Door } from './principals.js';

/**
 * A guard that lets in whoever one of the doors recognises. With several, the first one that the request knocks
 * at decides: a bad credential is not made good by another one.
 */
export function doorGuard(accepted: readonly [Door, ...Door[]]): Type<CanActivate> {
  @Injectable()
  class DoorGuard implements CanActivate {
    constructor(private readonly doors: Doors) {}

    async canActivate(context: ExecutionContext): Promise<boolean> {
      const http = context.switchToHttp();
      const request = http.getRequest<Request>();
      const door =
        accepted.length === 1 ? accepted[0] : accepted.find((candidate) => this.doors.isKnockedAt(candidate, request));
      if (!door) throw new ProblemException(problems.unauthenticated);
      request.user = await this.doors.open(door, request);
      return true;
    }
  }
  return mixin(DoorGuard);
}

export const UserGuard = doorGuard(['user']);
export const NodeGuard = doorGuard(['node']);
export const AdminGuard = doorGuard(['admin']);

/** For the route on which a service has a key validated that was presented to it: the key is good at that service only. */
@Injectable()
export class PresentedAppGuard extends doorGuard(['app']) {
  override canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    const http = context.switchToHttp();
    (http.getResponse<Response>().locals as RequestOutcome).presentedTo = presentedTarget(http.getRequest<Request>());
    return super.canActivate(context) as Promise<boolean>;
  }
}

/**
 * For routes that a service calls for another caller: its own credential must hold too, if it sent one or must. They take
 * no fields: a target that the service put there would not be looked at.
 */
@Injectable()
export class ForwardingAppGuard implements CanActivate {
  constructor(
    private readonly doors: Doors,
    private readonly environment: Environment,
  ) {}

  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    const request = context.switchToHttp().getRequest<Request>();
    refuseUnknownFields(request.body);
    const isNeeded = this.environment.validateNodeRequiresApp || this.doors.isKnockedAt('app', request);
    return isNeeded ? this.letIn(request) : true;
  }

  /** The app is the principal until the next guard opens the node door, whose principal names it. */
  private async letIn(request: Request): Promise<boolean> {
    request.user = await this.doors.open('app', request);
    return true;
  }
}
