import type { Request } from 'express';
import type { Scope } from '../common/names.js';
import type { SecretDigest } from '../crypto/secret.js';

/** Set when a verifier may remember the verdict about a key. */
export interface Rememberable {
  readonly expiresAt: Date | null;
}

export interface UserPrincipal {
  readonly door: 'user';
  readonly userId: string;
  readonly sessionId: string;
  /** The present one, not the one in the token. */
  readonly email: string;
  readonly amr: readonly string[];
  /** When the access token, or its session, ends. */
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
  /** Null: all that the target knows. */
  readonly scopes: readonly string[] | null;
  readonly rememberable: Rememberable | undefined;
}

export interface NodePrincipal {
  readonly door: 'node';
  readonly nodeId: string;
  readonly householdId: string;
  /** The only services at which it is accepted; null: all. */
  readonly targets: readonly string[] | null;
  /** The app that forwarded the node's credential with a valid one of its own. */
  readonly forwardedBy: string | null;
  readonly rememberable: Rememberable | undefined;
}

export interface OperatorIdentity {
  readonly id: string;
  readonly name: string;
  readonly scopes: readonly Scope[];
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
 * A parameter decorator would pass the principal through the validation pipe: CPU of validate-node 31.4 instead of
 * 29.1 µs (docs/performance.md).
 * @param doors the ones that the route declares
 */
export function getPrincipal<D extends Door>({ user }: Request, ...doors: D[]): Extract<Principal, { door: D }> {
  const principal = user as Extract<Principal, { door: D }> | undefined;
  if (!principal || !doors.includes(principal.door)) throw new Error('The request has no principal of these doors');
  return principal;
}
