import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { MoreThan, type EntityManager, type Repository } from 'typeorm';
import { asUser, type Actor } from '../audit/actor.js';
import { entryValues, recordIn } from '../audit/audit-entry.js';
import { addDays, Clock } from '../common/clock.js';
import { createId } from '../common/ids.js';
import { toPage, type Page, type PageRequest } from '../common/page.js';
import { Environment } from '../config/environment.js';
import type { SecretDigest } from '../crypto/secret.js';
import { Database } from '../database/database.js';
import { RowsById } from '../database/rows-by-id.js';
import { RefreshTokens } from './refresh-token.js';
import * as sql from './session-statements.js';
import { Session } from './session.entity.js';

/** What a session grants: a refresh token, and the claims of an access token. */
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

/** Sessions: started by a login, at most so many a user, and ended. token-rotation.ts is about what happens between. */
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
    const token = this.tokens.first(createId());
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
   * Ends the session of a refresh token, whichever of its generations is presented: a refresh that runs at the
   * same time leaves nothing alive.
   * @returns the session, or undefined when there was nothing to end
   */
  async endByRefreshToken(presented: string, actor: Actor): Promise<EndedSession | undefined> {
    const token = this.tokens.parse(presented);
    if (!token) return undefined;
    const { sessionId } = token;
    const row = await this.database.row<LogoutRow>(sql.READ_FOR_LOGOUT, [sessionId]);
    if (!row) return undefined;
    // The current token is good by its digest alone, also when SECRET_KEY has changed since it was made.
    const isIts =
      row.token_digest.equals(token.digest) || this.tokens.belongsTo(token, row.generation, row.token_digest);
    return isIts ? this.end({ sessionId, userId: row.user_id }, 'logout', actor) : undefined;
  }

  /** @returns the session, or undefined when it had ended before */
  async end(session: EndedSession, reason: 'logout' | 'reuse', actor: Actor): Promise<EndedSession | undefined> {
    const { sessionId, userId } = session;
    const now = this.clock.now();
    const details = { session_id: sessionId, reason };
    // The holder of a token ends the session as its user. In a reuse the holder may be a thief.
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
   * @returns how many sessions ended
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
   * @param transaction that the caller records the act in
   * @returns how many sessions ended
   */
  async endAll(transaction: EntityManager, userId: string, reason: 'admin' | 'disabled'): Promise<number> {
    const values = [userId, this.clock.now(), reason];
    const [, count] = await transaction.query<[unknown, number]>(sql.END_ALL_SESSIONS, values);
    return count;
  }

  /** @returns how many of the user's oldest sessions ended to keep `SESSION_LIMIT_PER_USER` */
  private async endSurplus(userId: string, actor: Actor): Promise<number> {
    const now = this.clock.now();
    const details = { reason: 'session_limit' };
    const record = entryValues({ event: 'session.ended', actor, time: now, subject: userId, details });
    const values = [userId, now, this.environment.sessionLimitPerUser, ...record];
    return (await this.database.rows(sql.END_SURPLUS_SESSIONS, values)).length;
  }

  /** Whether a session goes on and its user is active. */
  async isLive(sessionId: string, userId: string): Promise<boolean> {
    return (await this.liveSessions.find(sessionId))?.user_id === userId;
  }

  async list(userId: string, page: PageRequest): Promise<Page<Session>> {
    const where = { userId, ...(page.after !== undefined && { id: MoreThan(page.after) }) };
    return toPage(await this.sessions.find({ where, order: { id: 'ASC' }, take: page.limit + 1 }), page);
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
