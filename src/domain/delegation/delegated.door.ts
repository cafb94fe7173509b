/**
 * Tokens with which one service calls another on behalf of a user (RFC 8693). Terms: the *chain* of a token names each
 * service that passed the user on, the caller first, with the pair (app credential) that allowed it; its *audience* is
 * the only service that may present it here. Invariant: a token is valid while its session lives and every pair of its
 * chain is live and for users, of the same revision as when the token was issued. Nothing of this is cached, so a
 * revocation holds when its call has answered.
 */
import { Injectable } from '@nestjs/common';
import { createRefusal, Doors } from '../../foundation/access/doors.js';
import type { Delegation, UserPrincipal } from '../../foundation/access/principals.js';
import { isId } from '../../foundation/common/ids.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { ANY_GIVEN_ID, Database, RowsById } from '../../foundation/database/database.js';
import { AccessTokens, type DelegatedClaims } from '../tokens/access-tokens.js';
import { SessionsService } from '../tokens/sessions.service.js';
import { CLOCK_TOLERANCE_SECONDS } from '../tokens/user.door.js';
import { readChain } from './delegation-chain.js';

export const DELEGATED_TTL_SECONDS = 5 * 60;

const READ_PAIRS = {
  name: 'app_credentials_read_for_users',
  text: `SELECT id, caller, target, scopes, expires_at, for_users_revision FROM app_credentials
    WHERE id = ${ANY_GIVEN_ID} AND revoked_at IS NULL AND for_users`,
};

interface PairRow {
  readonly id: string;
  readonly caller: string;
  readonly target: string;
  readonly scopes: readonly string[];
  readonly expires_at: Date | null;
  readonly for_users_revision: number;
}

@Injectable()
export class DelegatedDoor {
  private readonly pairs = new RowsById<PairRow>((ids) => this.database.rows(READ_PAIRS, [ids]));

  constructor(
    doors: Doors,
    private readonly accessTokens: AccessTokens,
    private readonly sessions: SessionsService,
    private readonly database: Database,
    private readonly clock: ComparedClock,
  ) {
    doors.installDelegation(this);
  }

  isDelegated(token: string): boolean {
    return this.accessTokens.isDelegated(token);
  }

  /**
   * @param audience the service that presents the token
   * @param isFresh whether to skip the cache of signing keys
   * @throws {ProblemException} invalid_access_token
   */
  async verifyDelegated(token: string, audience: string, isFresh = false): Promise<UserPrincipal> {
    const claims = await this.accessTokens.verifyDelegatedSignature(token, isFresh);
    if (!claims) throw createRefusal('user', 'not_accepted');
    const chain = readChain(claims);
    if (!chain || !hasRequiredClaims(claims) || claims.client_id !== chain[0].appId)
      throw createRefusal('user', 'incomplete_claims');
    const { sub: userId, sid: sessionId, iss, jti, iat, exp } = claims;
    const fields = { user_id: userId, session_id: sessionId };
    if (claims.aud !== audience) throw createRefusal('user', 'other_audience', fields);
    const now = this.clock.trustedNow();
    if (exp * 1_000 <= now.getTime()) throw createRefusal('user', 'expired', fields);
    if (exp > now.getTime() / 1_000 + DELEGATED_TTL_SECONDS + CLOCK_TOLERANCE_SECONDS) {
      await this.sessions.refuseSetBackClock(sessionId, now);
      throw createRefusal('user', 'impossible_times', fields);
    }
    const [session, pairs] = await Promise.all([
      this.sessions.findLiveSession(sessionId, userId),
      this.findPairs(chain, audience, now),
    ]);
    if (!session) throw createRefusal('user', 'session_ended', fields);
    const [last] = pairs;
    if (!last) throw createRefusal('user', 'pair_ended', fields);
    const { email, amr, created_at: authenticatedAt, absolute_expires_at: sessionEnd } = session;
    const ends = [sessionEnd, ...pairs.flatMap(({ expires_at }) => expires_at ?? [])].map((end) => end.getTime());
    const expiresAt = new Date(Math.min(exp * 1_000, ...ends));
    const scopes = claims.scope.split(' ').filter((scope) => last.scopes.includes(scope));
    const claimed = { iss, jti, iat, exp };
    const delegation: Delegation = { scopes, chain };
    return { door: 'user', userId, sessionId, email, amr, authenticatedAt, expiresAt, claims: claimed, delegation };
  }

  /** @returns the pair of each link, or none when one of them has ended or is not for users any more, also for a while */
  private async findPairs(chain: Delegation['chain'], audience: string, now: Date): Promise<readonly PairRow[]> {
    const found = await Promise.all(chain.map(({ appId }) => this.pairs.find(appId)));
    const live = found.filter((pair, index): pair is PairRow => {
      const target = index === 0 ? audience : chain[index - 1]?.service;
      const link = chain[index];
      const isOfLink = pair?.caller === link?.service && pair?.target === target;
      const isOfRevision = pair?.for_users_revision === link?.revision;
      return pair !== undefined && isOfLink && isOfRevision && (pair.expires_at === null || pair.expires_at > now);
    });
    return live.length === chain.length ? live : [];
  }
}

/** `aud` must be one text: a list could name a second service. */
function hasRequiredClaims(claims: Partial<DelegatedClaims>): claims is DelegatedClaims {
  const { sub, sid, aud, scope, iat, exp } = claims;
  const areIds = [sub, sid].every((id) => typeof id === 'string' && isId(id));
  return areIds && typeof aud === 'string' && typeof scope === 'string' && [iat, exp].every(Number.isSafeInteger);
}
