import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import type { Actor } from '../access/actor.js';
import type { AuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { addDays, Clock } from '../common/clock.js';
import { createId } from '../common/ids.js';
import { toNetwork } from '../common/network.js';
import { Environment } from '../config/environment.js';
import { toErrorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';
import type { Amr, Grant, SessionOwner } from './grant.js';
import { RefreshTokens } from './refresh-token.js';
import { END_SURPLUS_SESSIONS, START_SESSION } from './session-statements.js';

/** Sessions that logins start. */
@Injectable()
export class NewSessions {
  constructor(
    private readonly dataSource: DataSource,
    private readonly tokens: RefreshTokens,
    private readonly audit: AuditLog,
    private readonly environment: Environment,
    private readonly clock: Clock,
    private readonly log: Log,
  ) {}

  /**
   * @param amr how the user authenticated
   * @param useProofs consumes the proofs (challenge, code, passkey) in the transaction that starts the session; throws to
   * roll it back
   * @returns undefined when the user was disabled or deleted, or has another password or other factors by now
   */
  async start(
    owner: SessionOwner,
    actor: Actor,
    amr: Amr,
    useProofs?: (transaction: EntityManager) => Promise<void>,
  ): Promise<Grant | undefined> {
    const { id: userId, email } = owner;
    const token = this.tokens.createFirst(createId());
    const now = this.clock.now();
    const { refreshTokenExpireDays, sessionMaxAgeDays } = this.environment;
    const values = [
      token.sessionId,
      userId,
      token.digest,
      now,
      addDays(now, refreshTokenExpireDays),
      addDays(now, sessionMaxAgeDays),
      owner.passwordChangedAt,
      toNetwork(actor.address),
      actor.userAgent ?? null,
      amr,
      owner.factorsChangedAt,
    ];
    const event: AuditEvent = {
      event: 'user.login.succeeded',
      actor,
      time: now,
      subject: userId,
      details: { session_id: token.sessionId, amr },
      logFields: { user_id: userId, session_id: token.sessionId },
    };
    const started = useProofs
      ? await this.insertWith(useProofs, values, event)
      : await this.audit.execute(START_SESSION, values, event);
    if (started.length === 0) return undefined;
    // The session is committed already: if this fails, the next login ends the surplus.
    await this.endSurplus(userId, token.sessionId, actor).catch((error: unknown) => {
      this.log.warn('session_limit_not_enforced', { user_id: userId, error: toErrorFields(error) });
    });
    return { sessionId: token.sessionId, userId, email, amr, refreshToken: token.text };
  }

  /** Inserts the session first, which locks the user's row: a change of factors takes its locks in the same order. */
  private async insertWith(
    useProofs: (transaction: EntityManager) => Promise<void>,
    values: unknown[],
    event: AuditEvent,
  ): Promise<object[]> {
    return this.dataSource.transaction(async (transaction) => {
      const started = await this.audit.executeIn(transaction, START_SESSION, values, event);
      if (started.length > 0) await useProofs(transaction);
      return started;
    });
  }

  /** Ends the oldest sessions of a user who has too many. */
  private async endSurplus(userId: string, newSessionId: string, actor: Actor): Promise<void> {
    const [event, reason] = ['session.ended', 'session_limit'] as const;
    const now = this.clock.now();
    const values = [userId, now, this.environment.sessionLimitPerUser, newSessionId];
    const audited = { event, actor, time: now, subject: userId, details: { reason } };
    const { length: count } = await this.audit.execute(END_SURPLUS_SESSIONS, values, audited);
    if (count > 0) this.audit.logOnly(event, actor, { user_id: userId, reason, count });
  }
}
