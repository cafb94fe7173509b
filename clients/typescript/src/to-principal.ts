import { isSameChain, readChain } from './delegation.js';
import type {
  AnyUserPrincipal,
  AppPrincipal,
  DelegatedUserPrincipal,
  DelegationLink,
  Membership,
  NodePrincipal,
} from './principals.js';

type Body = Readonly<Record<string, unknown>>;

/** @returns undefined when the answer is about another credential or another service */
export function toAppPrincipal(body: Body, id: string, serviceName: string): AppPrincipal | undefined {
  const appId = toId(body.app_id);
  const { caller, target } = body;
  if (appId !== id || typeof caller !== 'string' || target !== serviceName) return undefined;
  const identity = { door: 'app', appId, caller, target: serviceName } as const;
  // Unreadable scopes become an empty list, so that the key may do nothing (fail closed).
  return Object.freeze('scopes' in body ? { ...identity, scopes: toWords(body.scopes) } : identity);
}

export function toNodePrincipal(body: Body, id: string): NodePrincipal | undefined {
  const nodeId = toId(body.node_id);
  const householdId = toId(body.household_id);
  if (nodeId !== id || householdId === undefined) return undefined;
  return Object.freeze({ door: 'node', nodeId, householdId });
}

/** What a token itself says, of which the answer must be about. */
export interface TokenClaims {
  readonly userId: string;
  readonly sessionId: string;
  /** Of a delegated token. */
  readonly chain?: readonly DelegationLink[] | undefined;
}

export function toUserPrincipal(body: Body, claimed: TokenClaims): AnyUserPrincipal | undefined {
  const userId = toId(body.user_id);
  const sessionId = toId(body.session_id);
  const { email } = body;
  if (userId !== claimed.userId || sessionId !== claimed.sessionId) return undefined;
  if (claimed.chain) return toDelegatedPrincipal(body, { userId, sessionId }, claimed.chain);
  if (typeof email !== 'string' || 'act' in body) return undefined;
  const households = toMemberships(body.households);
  const identity = { door: 'user', userId, sessionId, email, amr: toWords(body.amr), caller: null } as const;
  return Object.freeze(households ? { ...identity, households } : identity);
}

function toDelegatedPrincipal(
  body: Body,
  ids: { userId: string; sessionId: string },
  chain: readonly DelegationLink[],
): DelegatedUserPrincipal | undefined {
  const { caller } = body;
  const answered = readChain(body.act);
  if (!answered || !isSameChain(answered, chain) || typeof caller !== 'string' || caller !== chain[0]?.service)
    return undefined;
  const granted = { caller, scopes: toWords(body.scopes), chain };
  return Object.freeze({ door: 'user', ...ids, amr: toWords(body.amr), ...granted });
}

/** @returns an empty list for an unreadable one, so that a service that requires `mfa` or a scope refuses (fail closed) */
function toWords(value: unknown): readonly string[] {
  const isList = Array.isArray(value) && value.every((word) => typeof word === 'string');
  return Object.freeze(isList ? [...value] : []);
}

/** @returns undefined for an absent or unreadable list, which must not be taken for none */
function toMemberships(value: unknown): readonly Membership[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const memberships = value.map(toMembership);
  return memberships.includes(undefined) ? undefined : Object.freeze(memberships as Membership[]);
}

function toMembership(value: unknown): Membership | undefined {
  const { id, role } = (value ?? {}) as Body;
  if (typeof id !== 'string' || (role !== 'admin' && role !== 'member')) return undefined;
  return Object.freeze({ id: id.toLowerCase(), role });
}

function toId(value: unknown): string | undefined {
  return typeof value === 'string' ? value.toLowerCase() : undefined;
}
