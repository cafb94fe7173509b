/**
 * Users on whose behalf another service calls (RFC 8693). Terms: a *delegated token* names, in `act`, its *chain*: each service
 * that passed the user on, the caller first, with the pair (app credential) that allowed it. A route refuses such a token unless
 * it says that it accepts it.
 */
import { DelegationNotAcceptedError, DelegationRequiredError, MissingScopeError } from './errors.js';
import type { AnyUserPrincipal, DelegationLink, Principal } from './principals.js';

/** What a route demands of a user besides a valid access token. */
export interface UserDemands {
  /** Accepts a token that another service got on behalf of the user; `only`: no other one. */
  readonly delegated?: boolean | 'only' | undefined;
  /** A delegated token without this scope is refused with 403 `missing_scope`. A user's own token has no scopes. */
  readonly scope?: string | undefined;
}

/** What a token for another service is asked for. */
export interface TokenDemands {
  /** Of the scopes that the map gives this service for the target; by default all of them, separated by blanks. */
  readonly scope?: string | undefined;
}

/** The `typ` of a delegated token (RFC 9068). */
export const DELEGATED_TYPE = 'at+jwt';
const MAX_LINKS = 4;

/** The `iss` of a delegated token. */
export function toDelegatedIssuer(issuer: string): string {
  return `${issuer}/delegated`;
}

/** @returns the chain of `act`, the caller first; undefined when it is not one */
export function readChain(act: unknown): readonly DelegationLink[] | undefined {
  const links: DelegationLink[] = [];
  for (let next = act; next !== undefined;) {
    const { sub, client_id: appId, act: earlier } = (next ?? {}) as Readonly<Record<string, unknown>>;
    if (typeof sub !== 'string' || typeof appId !== 'string' || links.length === MAX_LINKS) return undefined;
    links.push(Object.freeze({ service: sub, appId: appId.toLowerCase() }));
    next = earlier;
  }
  return links.length === 0 ? undefined : Object.freeze(links);
}

export function isSameChain(one: readonly DelegationLink[], other: readonly DelegationLink[]): boolean {
  return (
    one.length === other.length &&
    one.every(({ service, appId }, index) => service === other[index]?.service && appId === other[index].appId)
  );
}

/**
 * Judges the demands by the newest answer about the token, so that an answer that was remembered for one route also serves
 * another one.
 * @throws {DelegationNotAcceptedError} {DelegationRequiredError} {MissingScopeError}
 */
export function expectDelegation(
  identity: Principal | AnyUserPrincipal,
  { delegated = false, scope }: UserDemands,
): void {
  if (identity.door !== 'user') return;
  if (identity.caller === null) {
    if (delegated === 'only') throw new DelegationRequiredError();
    return;
  }
  if (delegated === false) throw new DelegationNotAcceptedError();
  if (scope !== undefined && !identity.scopes.includes(scope)) throw new MissingScopeError(scope);
}
