import { Injectable } from '@nestjs/common';
import { Counter } from 'prom-client';
import type { Actor } from '../../foundation/access/actor.js';
import type { AppPrincipal, Delegation, UserPrincipal } from '../../foundation/access/principals.js';
import type { RefusalReason } from '../../foundation/common/security-events.js';
import { Environment } from '../../foundation/config/environment.js';
import { MAX_DELEGATION_LINKS } from '../../foundation/config/limits.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { MetricsRegistry, PREFIX } from '../../foundation/metrics/metrics-registry.js';
import { createFieldProblem, ProblemException, problems, type Problem } from '../../foundation/problems/problems.js';
import { CountedRefusals } from '../audit/counted-refusals.js';
import { AccessTokens } from '../tokens/access-tokens.js';
import { UserDoor } from '../tokens/user.door.js';
import { DELEGATED_TTL_SECONDS, DelegatedDoor } from './delegated.door.js';
import { toAct } from './delegation-chain.js';
import { PairsForUsers } from './pairs-for-users.js';

/** RFC 8693 §2.1. */
export const TOKEN_EXCHANGE_GRANT = 'urn:ietf:params:oauth:grant-type:token-exchange';

interface AskedToken {
  readonly subjectToken: string;
  readonly audience: string;
  /** Undefined: every scope of the pair. */
  readonly scopes: readonly string[] | undefined;
}

interface ExchangedToken {
  readonly accessToken: string;
  readonly ttlSeconds: number;
  readonly scopes: readonly string[];
}

/**
 * Issues delegated tokens to services whose pair with the audience is for users. Each exchange adds one link to the chain.
 */
@Injectable()
export class TokenExchangeService {
  private readonly exchanges;

  constructor(
    private readonly door: DelegatedDoor,
    private readonly userDoor: UserDoor,
    private readonly accessTokens: AccessTokens,
    private readonly pairs: PairsForUsers,
    private readonly refusals: CountedRefusals,
    private readonly environment: Environment,
    private readonly clock: ComparedClock,
    { registry }: MetricsRegistry,
  ) {
    this.exchanges = new Counter({
      name: `${PREFIX}token_exchanges_total`,
      help: 'Tokens for users that services got for other services.',
      labelNames: ['caller', 'target'],
      registers: [registry],
    });
  }

  /** @throws {ProblemException} unsupported_grant_type, invalid_subject_token, invalid_target, invalid_scope */
  async exchangeToken(asked: AskedToken, caller: AppPrincipal, actor: Actor): Promise<ExchangedToken> {
    const { environment, clock } = this;
    if (environment.accessTokenAlgorithm !== 'ES256') throw new ProblemException(problems.unsupportedGrantType);
    const { audience } = asked;
    const refuse = (problem: Problem, reason: RefusalReason<'token.exchange.refused'>): ProblemException =>
      this.createExchangeRefusal(problem, reason, caller, actor);
    const [subject, pair] = await Promise.all([
      this.findSubject(asked.subjectToken, caller.caller),
      this.pairs.findPair({ caller: caller.caller, target: audience }),
    ]);
    if (!subject) throw refuse(problems.invalidSubjectToken, 'subject_token');
    if (!pair || audience === environment.serviceName) throw refuse(problems.invalidTarget, 'target');
    const scopes = asked.scopes ?? pair.scopes;
    if (!scopes.every((scope) => pair.scopes.includes(scope))) throw refuse(problems.invalidScope, 'scope');
    const earlier = subject.delegation?.chain ?? [];
    if (earlier.length >= MAX_DELEGATION_LINKS)
      throw createFieldProblem('/subject_token', `has a chain of ${MAX_DELEGATION_LINKS} links, which is the longest`);
    const link = { service: caller.caller, appId: pair.id, revision: pair.for_users_revision };
    const chain: Delegation['chain'] = [link, ...earlier];
    const issuedAt = Math.floor(clock.trustedNow().getTime() / 1_000);
    const ends = [subject.expiresAt, pair.expires_at].flatMap((end) => (end ? Math.floor(end.getTime() / 1_000) : []));
    const exp = Math.min(issuedAt + DELEGATED_TTL_SECONDS, ...ends);
    if (exp <= issuedAt) throw refuse(problems.invalidSubjectToken, 'subject_token');
    const accessToken = await this.accessTokens.signDelegatedToken({
      sub: subject.userId,
      sid: subject.sessionId,
      aud: audience,
      client_id: pair.id,
      act: toAct(chain),
      revisions: chain.map(({ revision }) => revision),
      scope: scopes.join(' '),
      iat: issuedAt,
      exp,
    });
    await this.pairs.recordUse(pair, actor);
    // Refusals are counted by reason: a pair that does not exist must not become a series.
    this.exchanges.inc({ caller: caller.caller, target: audience });
    return { accessToken, ttlSeconds: exp - issuedAt, scopes };
  }

  /** @returns undefined for a token that is not valid, or was issued for another caller */
  private async findSubject(token: string, caller: string): Promise<UserPrincipal | undefined> {
    if (/\s/.test(token)) return undefined;
    try {
      const isDelegated = this.door.isDelegated(token);
      return await (isDelegated ? this.door.verifyDelegated(token, caller) : this.userDoor.verifyToken(token));
    } catch (error) {
      if (error instanceof ProblemException && error.problem.status === 401) return undefined;
      throw error;
    }
  }

  private createExchangeRefusal(
    problem: Problem,
    reason: RefusalReason<'token.exchange.refused'>,
    { appId, caller }: AppPrincipal,
    actor: Actor,
  ): ProblemException {
    const event = 'token.exchange.refused';
    this.refusals.deferRefusal({ event, reason, counted: appId, subject: appId }, actor);
    // Without a door, because the caller's credential is valid: the metrics count a refused flow, not a verdict.
    const fields = { app_id: appId, calling_service: caller };
    return new ProblemException(problem, { refusal: { event, reason, fields } });
  }
}
