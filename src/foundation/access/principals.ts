// The doors, and the principal that each finds behind a credential. A further door is an entry of DOORS, its principal and
// its actor's id, all in this file; the room of its credential has the door itself and its strategy.

import type { Request } from 'express';
import type { HouseholdRole, OperatorScope } from '../common/names.js';
import type { RefusalEventName } from '../common/security-events.js';
import type { SecretDigest } from '../crypto/secret.js';
import { problems, type Problem } from '../problems/problems.js';

interface DoorDescription {
  /** A request presents a credential for the door when it has at least one of these headers. */
  readonly headers: readonly string[];
  /** The security schemes of the OpenAPI document, one for each header (tools/openapi-document.ts). */
  readonly schemes: readonly string[];
  readonly problem: Problem;
  readonly refusalEvent: RefusalEventName;
}

export const DOORS = {
  user: {
    headers: ['authorization'],
    schemes: ['user'],
    problem: problems.invalidAccessToken,
    refusalEvent: 'user.token.refused',
  },
  app: {
    headers: ['x-platform-app-id', 'x-platform-app-key'],
    schemes: ['app_id', 'app_key'],
    problem: problems.invalidAppCredentials,
    refusalEvent: 'app.validation.failed',
  },
  node: {
    headers: ['x-api-key'],
    schemes: ['node'],
    problem: problems.invalidNodeCredentials,
    refusalEvent: 'node.validation.failed',
  },
  admin: {
    headers: ['x-admin-key'],
    schemes: ['admin'],
    problem: problems.invalidAdminKey,
    refusalEvent: 'admin.key.refused',
  },
} as const satisfies Record<Door, DoorDescription>;

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
  /** When the user logged in: a refresh is not a new authentication. */
  readonly authenticatedAt: Date;
  /** The earlier of the ends of the access token and of its session. */
  readonly expiresAt: Date;
  readonly claims: TokenClaims;
  /** Present when another service got the token on behalf of the user (RFC 8693). */
  readonly delegation?: Delegation;
  /** In the order of their ids; undefined unless the door was asked for them. */
  readonly households?: readonly Membership[] | undefined;
}

/** Named as in the answers to services. */
export interface Membership {
  readonly id: string;
  readonly role: HouseholdRole;
}

/** @throws {Error} when the door was not asked for them, because absent must not be taken for none */
export function requireHouseholds({ households }: UserPrincipal): readonly Membership[] {
  if (!households) throw new Error('The user door was not asked for households');
  return households;
}

/** A service that passed the user on, and the pair (app credential) that allowed it. */
export interface DelegationLink {
  readonly service: string;
  readonly appId: string;
  /** How often the pair was made for users again before it allowed this. */
  readonly revision: number;
}

export interface Delegation {
  /** The signed scopes that the last pair still has. */
  readonly scopes: readonly string[];
  /** The caller first, which got the token. */
  readonly chain: readonly [DelegationLink, ...DelegationLink[]];
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

/** @returns null for the root key */
export function getActorId(principal: Principal): string | null {
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
 * A function rather than a parameter decorator, which would pass the principal through the validation pipe (2 µs of
 * CPU).
 * @param doors the doors that the route declares
 */
export function getPrincipal<D extends Door>({ user }: Request, ...doors: D[]): Extract<Principal, { door: D }> {
  const principal = user as Extract<Principal, { door: D }> | undefined;
  if (!principal || !doors.includes(principal.door)) throw new Error('The request has no principal of these doors');
  return principal;
}
