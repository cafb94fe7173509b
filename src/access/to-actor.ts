import type { Request } from 'express';
import type { Actor } from './actor.js';
import { getClientAddress } from '../common/client-address.js';
import { readUserAgent } from '../common/user-agent.js';
import { getCallerRequestId, getRequestId } from '../common/request-id.js';
import type { Principal } from './principals.js';

/** The principal of the route's door, as an actor of the audit log. */
export function toActor(request: Request): Actor {
  const principal = request.user as Principal | undefined;
  return {
    door: principal?.door ?? 'open',
    id: principal ? getActorId(principal) : null,
    operator: principal?.door === 'admin' ? principal.operator?.name : undefined,
    requestId: getRequestId(request),
    callerRequestId: getCallerRequestId(request),
    address: getClientAddress(request) ?? null,
    userAgent: readUserAgent(request),
  };
}

function getActorId(principal: Principal): string | null {
  switch (principal.door) {
    case 'user':
      return principal.userId;
    case 'app':
      return principal.appId;
    case 'node':
      return principal.nodeId;
    case 'admin':
      return principal.operator?.id ?? null;
  }
}
