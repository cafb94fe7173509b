import type { Request } from 'express';
import type { Door, Principal } from '../access/principals.js';
import { getClientAddress } from '../common/client-address.js';
import { getCallerRequestId, getRequestId } from '../common/request-id.js';

/** Who does something, and from where. `open`: the caller came through no door. `cli`: the command line. */
export interface Actor {
  readonly door: Door | 'open' | 'cli';
  readonly id: string | null;
  readonly requestId: string | null;
  /** The `X-Request-Id` that the caller sent, for correlation only. */
  readonly callerRequestId?: string | undefined;
  readonly address: string | null;
}

/** The operator's command line, which works on the database. */
export const COMMAND_LINE: Actor = { door: 'cli', id: null, requestId: null, address: null };

/** The principal of the route's door. */
export function actorOf(request: Request): Actor {
  const principal = request.user as Principal | undefined;
  return {
    door: principal?.door ?? 'open',
    id: principal ? idOf(principal) : null,
    requestId: getRequestId(request),
    callerRequestId: getCallerRequestId(request),
    address: getClientAddress(request) ?? null,
  };
}

/** The same caller, known by now to be this user. */
export function asUser(actor: Actor, userId: string): Actor {
  return { ...actor, door: 'user', id: userId };
}

function idOf(principal: Principal): string | null {
  switch (principal.door) {
    case 'user':
      return principal.userId;
    case 'app':
      return principal.appId;
    case 'node':
      return principal.nodeId;
    case 'admin':
      return null;
  }
}
