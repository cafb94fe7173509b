// Who performs an audited act: the principal of the request, a caller without a credential, or this service itself.

import type { Request } from 'express';
import { getCallerRequestId, getRequestId } from '../common/ids.js';
import { getClientAddress } from '../common/network.js';
import { getActorId, getPrincipal, type Door, type Principal, type UserPrincipal } from './principals.js';

const MAX_USER_AGENT_LENGTH = 200;

/** Who performs an audited act. `open` is a caller without a credential, `service` this service itself. */
export interface Actor {
  readonly door: Door | 'open' | 'cli' | 'service';
  /** Null for the root key and for a caller without a credential. */
  readonly id: string | null;
  readonly operator?: string | undefined;
  readonly requestId: string | null;
  /** The `X-Request-Id` that the caller sent, for correlation only. */
  readonly callerRequestId?: string | undefined;
  readonly address: string | null;
  /** Shown in the user's list of sessions. It is neither logged nor written to the audit log. */
  readonly userAgent?: string | undefined;
}

export const COMMAND_LINE: Actor = { door: 'cli', id: null, requestId: null, address: null };

/** @returns the name of an actor of the admin door, for people and for the labels of metrics */
export function describeAdmin(operator: string | null | undefined): string {
  return operator == null ? 'admin' : `operator:${operator}`;
}

export function toUserActor(actor: Actor, userId: string): Actor {
  return { ...actor, door: 'user', id: userId };
}

export function toActor(request: Request): Actor {
  const principal = request.user as Principal | undefined;
  return {
    door: principal?.door ?? 'open',
    id: principal ? getActorId(principal) : null,
    operator: getOperatorName(request),
    requestId: getRequestId(request),
    callerRequestId: getCallerRequestId(request),
    address: getClientAddress(request) ?? null,
    userAgent: readUserAgent(request),
  };
}

/** @returns undefined for the root key, and for callers at another door than `admin` */
export function getOperatorName({ user }: Request): string | undefined {
  const principal = user as Principal | undefined;
  return principal?.door === 'admin' ? principal.operator?.name : undefined;
}

export interface OwnCall {
  readonly principal: UserPrincipal;
  readonly actor: Actor;
}

export function toOwnCall(request: Request): OwnCall {
  return { principal: getPrincipal(request, 'user'), actor: toActor(request) };
}

/**
 * @returns printable ASCII, cut to a length at which a person still recognises a device; undefined when nothing is left
 */
function readUserAgent({ headers }: Request): string | undefined {
  const text = headers['user-agent']
    ?.slice(0, MAX_USER_AGENT_LENGTH)
    .replace(/[^\x20-\x7e]/g, '')
    .trim();
  return text === '' ? undefined : text;
}
