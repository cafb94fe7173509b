import { mixin, type CanActivate, type ExecutionContext, type Type, Injectable } from '@nestjs/common';
import type { Request, Response } from 'express';
import { ProblemException, problems, NOT_VALID, refuseField, refuseUnknownFields } from '../problems/problems.js';
import type { ResponseLocals } from '../problems/problem.filter.js';
import { Environment } from '../config/environment.js';
import { isServiceName, SERVICE_NAME_DETAIL, type Scope } from '../common/names.js';
import { Doors } from './doors.js';
import type { Door } from './principals.js';

/**
 * Creates a guard that admits requests with a valid credential for one of the doors. With several doors, the first one
 * that the request presents a credential for decides: another credential does not make up for an invalid one.
 * @param scope of an operator, for the admin door; the strategy of that door compares it
 */
export function createDoorGuard(accepted: readonly [Door, ...Door[]], scope?: Scope): Type<CanActivate> {
  if (accepted.includes('admin') !== (scope !== undefined))
    throw new Error('A route declares a scope if, and only if, it accepts the admin door');
  @Injectable()
  class DoorGuard implements CanActivate {
    constructor(private readonly doors: Doors) {}

    async canActivate(context: ExecutionContext): Promise<boolean> {
      const http = context.switchToHttp();
      const request = http.getRequest<Request>();
      const door =
        accepted.length === 1
          ? accepted[0]
          : accepted.find((candidate) => this.doors.presentsCredential(candidate, request));
      if (!door) throw new ProblemException(problems.unauthenticated);
      if (door === 'admin') (http.getResponse<Response>().locals as ResponseLocals).scope = scope;
      request.user = await this.doors.authenticate(door, request);
      return true;
    }
  }
  return mixin(DoorGuard);
}

export const UserGuard = createDoorGuard(['user']);

/** The refusals of the user door on `validate-user`, where the body says `valid: false` too. */
export const USER_VERDICTS = [problems.missingAccessToken, problems.invalidAccessToken].map((problem) => ({
  ...problem,
  extension: NOT_VALID,
}));

/** For the route on which a service validates an access token that a client sent to it. */
@Injectable()
export class ForwardedUserGuard extends UserGuard {
  override async canActivate(context: ExecutionContext): Promise<boolean> {
    try {
      return (await super.canActivate(context)) === true;
    } catch (error) {
      if (!(error instanceof ProblemException)) throw error;
      const { problem, occurrence } = error;
      const verdict = USER_VERDICTS.find(({ code }) => code === problem.code);
      throw verdict ? new ProblemException(verdict, occurrence) : error;
    }
  }
}

export const AppGuard = createDoorGuard(['app']);
export const NodeGuard = createDoorGuard(['node']);

/**
 * For the route on which a service validates a key that a caller presented to it: the key is valid at that service
 * only.
 */
@Injectable()
export class PresentedAppGuard extends createDoorGuard(['app']) {
  override canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    const http = context.switchToHttp();
    (http.getResponse<Response>().locals as ResponseLocals).presentedTo = readPresentedTarget(
      http.getRequest<Request>(),
    );
    return super.canActivate(context) as Promise<boolean>;
  }
}

/**
 * For routes that a service calls with another caller's credential: the service's own credential must be valid too, if
 * it is sent or required. Fields are refused, because a target in the body would be ignored.
 */
@Injectable()
export class ForwardingAppGuard implements CanActivate {
  constructor(
    private readonly doors: Doors,
    protected readonly environment: Environment,
  ) {}

  /** Returns a promise only when it must: each one costs the hot path. */
  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    const request = context.switchToHttp().getRequest<Request>();
    refuseUnknownFields(request.body);
    const isNeeded = this.isRequired || this.doors.presentsCredential('app', request);
    return isNeeded ? this.authenticateService(request) : true;
  }

  protected get isRequired(): boolean {
    return false;
  }

  /** The app is the principal until the next guard authenticates the node, whose principal names the app. */
  private async authenticateService(request: Request): Promise<boolean> {
    request.user = await this.doors.authenticate('app', request);
    return true;
  }
}

/** For the route of nodes, the only one where operators may demand the service's own credential. */
@Injectable()
export class NodeForwardingAppGuard extends ForwardingAppGuard {
  protected override get isRequired(): boolean {
    return this.environment.validateNodeRequiresApp;
  }
}

export const TARGET_HEADER = 'x-platform-target';

/**
 * Reads the name of the service that forwards an app key for validation: from the body's `target`, or from
 * `X-Platform-Target`.
 * @returns null when the service does not name itself
 * @throws {ProblemException} validation_failed when one is not a service's name, when both were sent and differ, and
 *   for any other field: a misspelt target must not count as absent
 */
export function readPresentedTarget({ headers, body }: Request): string | null {
  refuseUnknownFields(body, 'target');
  const inHeader = headers[TARGET_HEADER];
  const inBody = (body as { target?: unknown } | undefined)?.target;
  if (inHeader !== undefined && !isServiceName(inHeader)) refuseField('', `X-Platform-Target ${SERVICE_NAME_DETAIL}`);
  if (inBody === undefined) return inHeader ?? null;
  if (!isServiceName(inBody)) refuseField('/target', SERVICE_NAME_DETAIL);
  if (inHeader !== undefined && inHeader !== inBody) refuseField('/target', 'must agree with X-Platform-Target');
  return inBody;
}
