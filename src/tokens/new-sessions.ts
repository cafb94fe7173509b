/** Starts the sessions of logins, and enforces the limit of sessions per user. */
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import type { Actor } from '../access/actor.js';
import { toUserEvent, withAuditEvent, type AuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { addDays } from '../common/clock.js';
import { createId } from '../common/ids.js';
import { toNetwork } from '../common/network.js';
import { Environment } from '../config/environment.js';
import { ComparedClock } from '../database/compared-clock.js';
import { toErrorFields, Log } from '../logging/log.js';
import { RefreshTokens } from './refresh-token.js';

/** How a user authenticated at a login (RFC 8176). */
export type Amr = readonly string[];

/** An authenticated user who logs in. */
export interface SessionOwner {
  readonly id: string;
  readonly email: string;
  /** As it was when the password was verified. */
  readonly passwordChangedAt: Date | null;
  /** As it was when the factors were read. */
  readonly factorsChangedAt: Date | null;
}

/** A refresh token, and what the access token beside it states. */
export interface Grant {
  readonly sessionId: string;
  readonly userId: string;
  readonly email: string;
  readonly amr: Amr;
  readonly refreshToken: string;
}

/** FOR SHARE closes the race with a transaction that disables the user, sets a password or changes second factors. */
const START_SESSION = withAuditEvent({
  name: 'sessions_start',
  text: `INSERT INTO sessions (id, user_id, token_digest, generation, rotated_at, created_at, expires_at, absolute_expires_at,
                               created_from, user_agent, amr)
         SELECT $1, active.id, $3, 0, $4, $4, LEAST($5, $6::timestamptz), $6, $8, $9, $10
         FROM (SELECT id FROM users
               WHERE id = $2 AND is_active AND password_changed_at IS NOT DISTINCT FROM $7::timestamptz
                 AND factors_changed_at IS NOT DISTINCT FROM $11::timestamptz
               FOR SHARE) AS active
         RETURNING id`,
});

/**
 * Ends the sessions of a user beyond the limit: expired ones first, then the oldest logins, never the new one. A statement
 * of its own, because only a snapshot that is taken after the INSERT shows the sessions of parallel logins. Locks rows in
 * the order of their ids, as END_ALL_SESSIONS does, against deadlocks.
 */
const END_SURPLUS_SESSIONS = withAuditEvent({
  name: 'sessions_end_surplus',
  text: `WITH surplus AS (
           SELECT id FROM sessions WHERE user_id = $1 AND ended_at IS NULL
           ORDER BY (id = $4) DESC, (expires_at > $2) DESC, id DESC OFFSET $3::integer),
         locked AS (
           SELECT id FROM sessions WHERE id IN (SELECT id FROM surplus) AND ended_at IS NULL ORDER BY id FOR UPDATE)
         UPDATE sessions SET ended_at = $2, end_reason = 'session_limit'
         FROM locked WHERE sessions.id = locked.id RETURNING sessions.id`,
});

interface Login {
  readonly owner: SessionOwner;
  readonly actor: Actor;
  readonly amr: Amr;
  /** Consumes challenge, code or passkey in the transaction that starts the session. Throws to roll it back. */
  readonly useProofs?: (transaction: EntityManager) => Promise<void>;
}

@Injectable()
export class NewSessions {
  constructor(
    private readonly dataSource: DataSource,
    private readonly tokens: RefreshTokens,
    private readonly audit: AuditLog,
    private readonly environment: Environment,
    private readonly clock: ComparedClock,
    private readonly log: Log,
  ) {}

  /** @returns undefined when the user was disabled or deleted, or has another password or other factors by now */
  async startSession({ owner, actor, amr, useProofs }: Login): Promise<Grant | undefined> {
    const { id: userId, email } = owner;
    const token = this.tokens.issueFirst(createId());
    const now = this.clock.trustedNow();
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
    const event = toUserEvent('user.login.succeeded', actor, userId, {
      time: now,
      details: { session_id: token.sessionId, amr },
      logFields: { session_id: token.sessionId },
    });
    const started = useProofs
      ? await this.insertWithProofs(useProofs, values, event)
      : await this.audit.execute(START_SESSION, values, event);
    if (started.length === 0) return undefined;
    // The session is committed already: if this fails, the next login ends the surplus.
    await this.endSurplusSessions(userId, token.sessionId, actor).catch((error: unknown) => {
      this.log.warn('session_limit_not_enforced', { user_id: userId, error: toErrorFields(error) });
    });
    return { sessionId: token.sessionId, userId, email, amr, refreshToken: token.text };
  }

  /** Inserts the session first, which locks the user's row: a change of factors locks in the same order. */
  private async insertWithProofs(
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

  private async endSurplusSessions(userId: string, newSessionId: string, actor: Actor): Promise<void> {
    const [event, reason] = ['session.ended', 'session_limit'] as const;
    const now = this.clock.now();
    const values = [userId, now, this.environment.sessionLimitPerUser, newSessionId];
    const audited = { event, actor, time: now, subject: userId, details: { reason } };
    const { length: count } = await this.audit.execute(END_SURPLUS_SESSIONS, values, audited);
    if (count > 0) this.audit.logOnly(event, actor, { user_id: userId, reason, count });
  }
}
