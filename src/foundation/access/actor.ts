// Who calls: the principal that a door found behind a credential, and the actor that the audit log names.

import type { Request } from 'express';
import { getCallerRequestId, getRequestId } from '../common/ids.js';
import type { OperatorScope } from '../common/names.js';
import { getClientAddress } from '../common/network.js';
import type { SecretDigest } from '../crypto/secret.js';

/**
 * The verdict about a key may be cached until the key expires. A principal without it must be validated at each use.
 */
export interface Rememberable {
  readonly expiresAt: Date | null;
}

export interface UserPrincipal {
  readonly door: 'user';
  readonly userId: string;
  readonly sessionId: string;
  /** The account's address now, which may differ from the one in the access token. */
  readonly email: string;
  readonly amr: readonly string[];
  /** The earlier of the ends of the access token and of its session. */
  readonly expiresAt: Date;
  readonly claims: TokenClaims;
}

/** The claims of a verified access token that introspection shows (RFC 7662 §2.2). */
interface TokenClaims {
  readonly iss: string;
  readonly jti: string;
  readonly iat: number;
  readonly exp: number;
}

export interface AppPrincipal {
  readonly door: 'app';
  readonly appId: string;
  readonly caller: string;
  readonly target: string;
  /** Null: the credential has every scope of its target. */
  readonly scopes: readonly string[] | null;
  /** Whether the caller presented the key that the last rotation replaced. */
  readonly isPrevious: boolean;
  readonly rememberable: Rememberable | undefined;
}

export interface NodePrincipal {
  readonly door: 'node';
  readonly nodeId: string;
  readonly householdId: string;
  /** The node's key is accepted at these services only; null: at every service. */
  readonly targets: readonly string[] | null;
  /** The app whose own valid credential came with the node's; null when none was sent. */
  readonly forwardedBy: string | null;
  readonly rememberable: Rememberable | undefined;
}

export interface OperatorIdentity {
  readonly id: string;
  readonly name: string;
  readonly scopes: readonly OperatorScope[];
  readonly keyDigest: SecretDigest;
}

export interface AdminPrincipal {
  readonly door: 'admin';
  /** Null for the root key, ADMIN_API_KEY, which has every scope. */
  readonly operator: OperatorIdentity | null;
}

export type Principal = UserPrincipal | AppPrincipal | NodePrincipal | AdminPrincipal;
export type Door = Principal['door'];

/**
 * A function rather than a parameter decorator, which would pass the principal through the validation pipe (2 µs of
 * CPU).
 * @param doors the doors that the route declares
 */
export function getPrincipal<D extends Door>({ user }: Request, ...doors: D[]): Extract<Principal, { door: D }> {
  const principal = user as Extract<Principal, { door: D }> | undefined;
  if (!principal || !doors.includes(principal.door)) throw new Error('The request has no principal of these doors');
  return principal;
}

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
