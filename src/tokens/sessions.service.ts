/**
 * Sessions: a login starts one (new-sessions.ts), refreshes rotate its token (token-rotation.ts), and a logout, its owner, a
 * new password, a new second factor, an operator, a reused token or the session limit ends it (SESSION_END_REASONS). A live
 * session has not ended, has not reached its absolute expiry, and its user is active. Ends are final and idempotent: one
 * conditional UPDATE, whose audit event is recorded in the same statement or transaction.
 */
import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import type { EntityManager, Repository } from 'typeorm';
import { toUserActor, type Actor } from '../access/actor.js';
import type { AuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { Clock } from '../common/clock.js';
import { findPage, type Page, type PageRequest } from '../http/page.js';
import type { SecretDigest } from '../crypto/secret.js';
import { Database, RowsById } from '../database/database.js';
import type { Amr } from './grant.js';
import { RefreshTokens } from './refresh-token.js';
import * as sql from './session-statements.js';
import { Session, type SessionEndReason } from './session.entity.js';

@Injectable()
export class SessionsService {
  private readonly liveSessions = new RowsById<LiveSession>((ids) =>
    this.database.rows(sql.READ_LIVE, [ids, this.clock.now()]),
  );

  constructor(
    @InjectRepository(Session) private readonly sessions: Repository<Session>,
    private readonly database: Database,
    private readonly tokens: RefreshTokens,
    private readonly audit: AuditLog,
    private readonly clock: Clock,
  ) {}

  /**
   * Ends the session of a refresh token of any generation: a concurrent refresh cannot leave the session alive.
   * Idempotent: without a live session it does nothing.
   * @returns whether the text is in the format of a refresh token
   */
  async endByRefreshToken(presented: string, actor: Actor): Promise<boolean> {
    const token = this.tokens.parse(presented);
    if (!token) return false;
    const { sessionId } = token;
    const row = await this.database.row<LogoutRow>(sql.READ_FOR_LOGOUT, [sessionId]);
    if (!row) return true;
    // The digest alone identifies the current token, also when SECRET_KEY has changed since it was created.
    const isOfSession =
      row.token_digest.equals(token.digest) || this.tokens.isOfSession(token, row.generation, row.token_digest);
    if (isOfSession) await this.logOut(sessionId, row.user_id, actor);
    return true;
  }

  /** Ends a session as its user. Idempotent. */
  async logOut(sessionId: string, userId: string, actor: Actor): Promise<void> {
    await this.end(sessionId, 'logout', {
      event: 'session.ended',
      actor: toUserActor(actor, userId),
      time: this.clock.now(),
      subject: userId,
      details: { session_id: sessionId, reason: 'logout' },
      logFields: { user_id: userId, session_id: sessionId, reason: 'logout' },
    });
  }

  /**
   * Ends a session whose superseded token was presented. The actor stays unknown: it may be an attacker. The log line is
   * that of the refusal.
   */
  async endReused(sessionId: string, userId: string, actor: Actor): Promise<void> {
    await this.end(sessionId, 'reuse', {
      event: 'session.refresh.reused',
      actor,
      time: this.clock.now(),
      subject: userId,
      details: { session_id: sessionId, reason: 'reuse' },
    });
  }

  private async end(sessionId: string, reason: SessionEndReason, event: AuditEvent): Promise<void> {
    await this.audit.execute(sql.END_SESSION, [sessionId, event.time, reason], event);
  }

  /** An operator ends all sessions of a user. Without a live one, only the log has a line. */
  async revokeAll(userId: string, actor: Actor): Promise<void> {
    await this.sessions.manager.transaction(async (transaction) => {
      const count = await this.endAll(transaction, userId, 'admin');
      const event = 'admin.user.sessions_revoked';
      const logFields = { user_id: userId, count };
      if (count === 0) this.audit.logOnly(event, actor, logFields);
      else
        await this.audit.record(transaction, {
          event,
          actor,
          time: this.clock.now(),
          subject: userId,
          count,
          logFields,
        });
    });
  }

  /**
   * @param transaction in which the caller records the act
   * @param exceptId the session that goes on
   * @returns the number of sessions that ended
   */
  async endAll(
    transaction: EntityManager,
    userId: string,
    reason: 'admin' | 'disabled' | 'password_changed' | 'password_reset' | 'second_factor_added',
    exceptId: string | null = null,
  ): Promise<number> {
    const values = [userId, this.clock.now(), reason, exceptId];
    const [, count] = await transaction.query<[unknown, number]>(sql.END_ALL_SESSIONS, values);
    return count;
  }

  /** @returns undefined when the session is not live, or belongs to another user */
  async findLive(sessionId: string, userId: string): Promise<LiveSession | undefined> {
    const session = await this.liveSessions.find(sessionId);
    return session?.user_id === userId ? session : undefined;
  }

  async list(userId: string, page: PageRequest): Promise<Page<Session>> {
    return findPage(this.sessions, page, { userId });
  }

  /** Deletes sessions that ended or expired before a moment; see {@link Database.purge}. */
  async purge(deadBefore: Date): Promise<number> {
    return this.database.purge(sql.PURGE_SESSIONS, deadBefore);
  }
}

interface LiveSession {
  readonly id: string;
  readonly user_id: string;
  readonly email: string;
  readonly amr: Amr;
  readonly absolute_expires_at: Date;
}

interface LogoutRow {
  readonly user_id: string;
  readonly token_digest: SecretDigest;
  readonly generation: number;
}
