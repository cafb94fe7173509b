import type { DelegationLink } from '../../../../clients/typescript/src/principals.js';
import { DELEGATED_TYPE, readChain } from '../../../../clients/typescript/src/delegation.js';
import type { ServiceAnswer } from '../../../../clients/typescript/src/transport.js';
import { createEnd, encode, USER } from './credentials.js';
import type { Right } from './household.js';
import type { World } from './world.js';

/** A user's token for the service of the verifiers, which `meals` got; `web` had passed the user on. */
export interface DelegatedToken {
  readonly sessionId: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly chain: readonly DelegationLink[];
}

export const EARLIER_PAIR = 'pair-1';
const PAIR = 'pair-2';
const EXPIRING_PAIR = 'pair-3';
const OWN_PAIR = 'pair-4';
const SIGNED_SCOPES = ['read', 'write'];

/** Three services that pass a user on, and the pairs that allow it. */
export class Delegation {
  readonly pairs: readonly Right[] = [EARLIER_PAIR, PAIR, EXPIRING_PAIR, OWN_PAIR].map((id) => ({
    id,
    hasEnded: false,
    ...(id === EXPIRING_PAIR ? createEnd() : { deadSince: Infinity, expiresAtMs: Infinity }),
  }));
  /** The scope `write` of the caller's pair. */
  readonly scope: Right = { id: 'the scope of the caller', hasEnded: false, deadSince: Infinity };
  readonly tokens = [createToken('session-1', [EARLIER_PAIR, PAIR]), createToken('session-2', [EXPIRING_PAIR, PAIR])];

  constructor(private readonly world: World) {}

  findPair(id: string): Right {
    return this.pairs.find((pair) => pair.id === id)!;
  }

  find(headers: Readonly<Record<string, string>>): DelegatedToken | undefined {
    return this.tokens.find((token) => token.headers.authorization === headers.Authorization);
  }

  isLive(sessionId: string, chain: readonly DelegationLink[]): boolean {
    const { world } = this;
    const session = world.credentials.find(({ id }) => id === sessionId);
    return (
      session !== undefined && world.isLive(session) && chain.every(({ appId }) => world.isLive(this.findPair(appId)))
    );
  }

  /** What validate-user answers about a token. */
  describe({ sessionId, chain }: DelegatedToken): object {
    const isNarrowed = this.scope.hasEnded && this.world.mistake !== 'scopes as signed';
    const scopes = SIGNED_SCOPES.filter((scope) => scope !== 'write' || !isNarrowed);
    return { valid: true, user_id: USER, session_id: sessionId, caller: 'meals', scopes, act: toAct(chain) };
  }

  getSecondsLeft({ chain }: DelegatedToken): number {
    const pairs =
      this.world.mistake === 'expiry outside the term' ? [] : chain.map(({ appId }) => this.findPair(appId));
    return Math.min(60, ...pairs.map((pair) => this.world.getSecondsLeft(pair)));
  }

  /** Issues a token for a third service, with the chain of the presented one and the pair of this service. */
  exchange(subjectToken: string): ServiceAnswer {
    const authorization = `Bearer ${subjectToken}`;
    const delegated = this.tokens.find(({ headers }) => headers.authorization === authorization);
    const own = this.world.credentials.find(({ headers }) => headers.authorization === authorization);
    const [sessionId, earlier] = delegated ? [delegated.sessionId, delegated.chain] : [own!.id, []];
    if (!this.isLive(sessionId, earlier))
      return { status: 400, headers: {}, body: JSON.stringify({ code: 'invalid_subject_token' }) };
    const token = buildToken(sessionId, [{ service: 'recipes', appId: OWN_PAIR }, ...earlier]);
    return { status: 200, headers: {}, body: JSON.stringify({ access_token: token, expires_in: 300 }) };
  }

  /** Whether the third service accepts a token, which it asks about at once. */
  isAccepted(token: string): boolean {
    const { sid, act } = JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString()) as {
      sid: string;
      act: unknown;
    };
    return this.isLive(sid, readChain(act)!);
  }
}

function createToken(sessionId: string, [earlier, pair]: [string, string]): DelegatedToken {
  const chain = [
    { service: 'meals', appId: pair },
    { service: 'web', appId: earlier },
  ];
  return { sessionId, chain, headers: { authorization: `Bearer ${buildToken(sessionId, chain)}` } };
}

function buildToken(sessionId: string, chain: readonly DelegationLink[]): string {
  const claims = { sub: USER, sid: sessionId, act: toAct(chain) };
  return `${encode({ alg: 'ES256', typ: DELEGATED_TYPE })}.${encode(claims)}.x`;
}

function toAct([link, ...earlier]: readonly DelegationLink[]): object {
  return { sub: link!.service, client_id: link!.appId, ...(earlier.length > 0 && { act: toAct(earlier) }) };
}
