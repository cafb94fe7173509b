/**
 * Sessions: a login starts one, refreshes rotate its token (token-rotation.ts), and a logout, an operator, a reused token
 * or the session limit ends it. A live session has not ended, has not reached its absolute expiry, and its user is active.
 * Ends are final and idempotent: one conditional UPDATE, which records the audit event in the same statement.
 */
import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { MoreThan, type EntityManager, type Repository } from 'typeorm';
import { asUser, type Actor } from '../audit/actor.js';
import { entryValues, recordIn } from '../audit/audit-entry.js';
import { addDays, Clock } from '../common/clock.js';
import { newId } from '../common/ids.js';
import { pageOf, type Page, type PageRequest } from '../common/page.js';
import { Environment } from '../config/environment.js';
import type { SecretDigest } from '../crypto/secret.js';
import { Database } from '../database/database.js';
import { RowsById } from '../database/rows-by-id.js';
import { RefreshTokens } from './refresh-token.js';
import * as sql from './session-statements.js';
import { Session } from './session.entity.js';

/** A refresh token, and what the access token beside it states. */
export interface Grant {
  readonly sessionId: string;
  readonly userId: string;
  readonly email: string;
  readonly refreshToken: string;
}

export interface StartedSession extends Grant {
  /** Sessions that ended because the user had too many. */
  readonly endedSessions: number;
}

export interface EndedSession {
  readonly sessionId: string;
  readonly userId: string;
}

@Injectable()
export class SessionsService {
  private readonly liveSessions = new RowsById<LiveSession>((ids) =>
    this.database.rows(sql.READ_LIVE, [ids, this.clock.now()]),
  );

  constructor(
    @InjectRepository(Session) private readonly sessions: Repository<Session>,
    private readonly database: Database,
    private readonly tokens: RefreshTokens,
    private readonly environment: Environment,
    private readonly clock: Clock,
  ) {}

  /** @returns undefined when the user was disabled or deleted meanwhile */
  async start(userId: string, email: string, actor: Actor): Promise<StartedSession | undefined> {
    const token = this.tokens.createFirst(newId());
    const now = this.clock.now();
    const { refreshTokenTtlDays, sessionMaxAgeDays } = this.environment;
    const values = [
      token.sessionId,
      userId,
      token.digest,
      now,
      addDays(now, refreshTokenTtlDays),
      addDays(now, sessionMaxAgeDays),
    ];
    const entry = { event: 'user.login.succeeded', actor, time: now, subject: userId } as const;
    const record = entryValues({ ...entry, details: { session_id: token.sessionId } });
    const started = await this.database.row(sql.START_SESSION, [...values, ...record]);
    if (!started) return undefined;
    const endedSessions = await this.endSurplus(userId, actor);
    return { sessionId: token.sessionId, userId, email, refreshToken: token.text, endedSessions };
  }

  /**
   * Ends the session of a refresh token of any generation: a concurrent refresh cannot leave the session alive.
   * @returns the session, or undefined when none was live
   */
  async endByRefreshToken(presented: string, actor: Actor): Promise<EndedSession | undefined> {
    const token = this.tokens.parse(presented);
    if (!token) return undefined;
    const { sessionId } = token;
    const row = await this.database.row<LogoutRow>(sql.READ_FOR_LOGOUT, [sessionId]);
    if (!row) return undefined;
    // The digest alone identifies the current token, also when SECRET_KEY has changed since it was created.
    const isOfSession =
      row.token_digest.equals(token.digest) || this.tokens.isOfSession(token, row.generation, row.token_digest);
    return isOfSession ? this.end({ sessionId, userId: row.user_id }, 'logout', actor) : undefined;
  }

  /** @returns the session, or undefined when it had ended before */
  async end(session: EndedSession, reason: 'logout' | 'reuse', actor: Actor): Promise<EndedSession | undefined> {
    const { sessionId, userId } = session;
    const now = this.clock.now();
    const details = { session_id: sessionId, reason };
    // A logout is recorded as an act of the user. A reused token may be in the hands of an attacker.
    const entry =
      reason === 'logout'
        ? ({ event: 'session.ended', actor: asUser(actor, userId) } as const)
        : ({ event: 'session.refresh.reused', actor } as const);
    const record = entryValues({ ...entry, time: now, subject: userId, details });
    const ended = await this.database.row(sql.END_SESSION, [sessionId, now, reason, ...record]);
    return ended && session;
  }

  /**
   * An operator ends all sessions of a user.
   * @returns the number of sessions that ended
   */
  async revokeAll(userId: string, actor: Actor): Promise<number> {
    return this.sessions.manager.transaction(async (transaction) => {
      const count = await this.endAll(transaction, userId, 'admin');
      if (count === 0) return count;
      const entry = { event: 'admin.user.sessions_revoked', actor, subject: userId, count } as const;
      await recordIn(transaction, { ...entry, time: this.clock.now() });
      return count;
    });
  }

  /**
   * @param transaction in which the caller records the act
   * @returns the number of sessions that ended
   */
  async endAll(transaction: EntityManager, userId: string, reason: 'admin' | 'disabled'): Promise<number> {
    const values = [userId, this.clock.now(), reason];
    const [, count] = await transaction.query<[unknown, number]>(sql.END_ALL_SESSIONS, values);
    return count;
  }

  /** Enforces `SESSION_LIMIT_PER_USER`. @returns the number of sessions that ended */
  private async endSurplus(userId: string, actor: Actor): Promise<number> {
    const now = this.clock.now();
    const details = { reason: 'session_limit' };
    const record = entryValues({ event: 'session.ended', actor, time: now, subject: userId, details });
    const values = [userId, now, this.environment.sessionLimitPerUser, ...record];
    return (await this.database.rows(sql.END_SURPLUS_SESSIONS, values)).length;
  }

  /** Whether a session is live and belongs to the user. */
  async isLive(sessionId: string, userId: string): Promise<boolean> {
    return (await this.liveSessions.find(sessionId))?.user_id === userId;
  }

  async list(userId: string, page: PageRequest): Promise<Page<Session>> {
    const where = { userId, ...(page.after !== undefined && { id: MoreThan(page.after) }) };
    return pageOf(await this.sessions.find({ where, order: { id: 'ASC' }, take: page.limit + 1 }), page);
  }

  /** Deletes sessions that ended or expired before a moment; see {@link Database.purge}. */
  async purge(deadBefore: Date, lock: number): Promise<number> {
    return this.database.purge(sql.PURGE_SESSIONS, deadBefore, lock);
  }
}

interface LiveSession {
  readonly id: string;
  readonly user_id: string;
}

interface LogoutRow {
  readonly user_id: string;
  readonly token_digest: SecretDigest;
  readonly generation: number;
}
