import { Injectable, mixin, type CanActivate, type ExecutionContext, type Type } from '@nestjs/common';
import type { Request, Response } from 'express';
import { createRefusal, Doors } from '../access/doors.js';
import { TARGET_HEADER } from '../access/door.guard.js';
import type { Principal } from '../access/principals.js';
import { isServiceName } from '../common/names.js';
import type { GatewayDoor } from '../http/request-target.js';
import { Log } from '../logging/log.js';
import { ProblemException, problems } from '../problems/problems.js';
import type { ResponseLocals } from '../problems/problem.filter.js';

/** Words of RFC 8176. Bounded, because a proxy refuses an answer with a large header. */
export const AMR_PATTERN = '^[a-z]{1,16}( [a-z]{1,16}){0,7}$';
const AMR_WORDS = new RegExp(AMR_PATTERN);

/**
 * Creates the guard of a route that gateways ask about a request of their own client: its verdict is a status alone. What
 * is neither 200 nor 401 becomes a 503, because a gateway takes any other status for an answer to its client.
 */
export function createGatewayGuard(door: GatewayDoor): Type<CanActivate> {
  @Injectable()
  class GatewayGuard implements CanActivate {
    private isMistakeLogged = false;

    constructor(
      private readonly doors: Doors,
      private readonly log: Log,
    ) {}

    async canActivate(context: ExecutionContext): Promise<true> {
      const http = context.switchToHttp();
      const request = http.getRequest<Request>();
      const response = http.getResponse<Response>();
      if (door === 'app') (response.locals as ResponseLocals).presentedTo = this.readTarget(request);
      try {
        const principal = await this.doors.authenticate(door, request);
        // RequestMetrics counts verdicts by the principal of the request.
        request.user = principal;
        response.set(toHeaders(principal));
      } catch (error) {
        throw toGatewayProblem(door, error);
      }
      return true;
    }

    /** A gateway that does not name its service would have every key refused, which is not a verdict. */
    private readTarget({ headers }: Request): string {
      const target = headers[TARGET_HEADER];
      if (isServiceName(target)) return target;
      if (!this.isMistakeLogged) this.log.warn('gateway_names_no_target');
      this.isMistakeLogged = true;
      throw new ProblemException(problems.gatewayMisconfigured, { isLogged: false });
    }
  }
  return mixin(GatewayGuard);
}

function toGatewayProblem(door: GatewayDoor, error: unknown): ProblemException {
  if (!(error instanceof ProblemException)) return new ProblemException(problems.unavailable, { cause: error });
  const { status } = error.problem;
  if (status === 400) return createRefusal(door, 'unreadable');
  return status === 401 ? error : new ProblemException(problems.unavailable, { cause: error });
}

/** The identity that a gateway passes on in place of the credential. */
function toHeaders(principal: Principal): Record<string, string> {
  switch (principal.door) {
    case 'node':
      return {
        'X-Auth-Door': 'node',
        'X-Auth-Node-Id': principal.nodeId,
        'X-Auth-Household-Id': principal.householdId,
      };
    case 'app':
      return { 'X-Auth-Door': 'app', 'X-Auth-App-Id': principal.appId, 'X-Auth-Caller': principal.caller };
    case 'user':
      return {
        'X-Auth-Door': 'user',
        'X-Auth-User-Id': principal.userId,
        'X-Auth-Session-Id': principal.sessionId,
        ...toAmrHeader(principal.amr),
      };
    case 'admin':
      throw new Error('Gateways do not ask about operators');
  }
}

/** Absent when there is nothing to state: a route that requires a word then refuses. */
function toAmrHeader(amr: readonly string[]): Record<string, string> {
  const words = amr.join(' ');
  return AMR_WORDS.test(words) ? { 'X-Auth-Amr': words } : {};
}
