// The claim `act` of a delegated token (RFC 8693 §4.1): the services that passed a user on, one inside the other.
import type { Delegation, DelegationLink } from '../../foundation/access/principals.js';
import { MAX_DELEGATION_LINKS } from '../../foundation/config/limits.js';
import type { ActClaim, DelegatedClaims } from '../tokens/access-tokens.js';

/** @returns the chain of `act`, the caller first; undefined when it is not one, or has another length than `revisions` */
export function readChain({ act, revisions }: Partial<DelegatedClaims>): Delegation['chain'] | undefined {
  const links: DelegationLink[] = [];
  for (let next: ActClaim | undefined = act; next !== undefined; next = next.act) {
    const { sub: service, client_id: appId } = (next as Partial<ActClaim> | null) ?? {};
    const revision = revisions?.[links.length];
    if (typeof service !== 'string' || typeof appId !== 'string' || revision === undefined) return undefined;
    if (links.length === MAX_DELEGATION_LINKS) return undefined;
    links.push({ service, appId, revision });
  }
  if (links.length !== revisions?.length) return undefined;
  const [first, ...earlier] = links;
  return first && [first, ...earlier];
}

export function toAct([link, ...earlier]: Delegation['chain']): ActClaim {
  const [next, ...rest] = earlier;
  return { sub: link.service, client_id: link.appId, ...(next && { act: toAct([next, ...rest]) }) };
}
