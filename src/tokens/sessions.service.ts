import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { MoreThan, type EntityManager, type Repository } from 'typeorm';
import { asUser, type Actor } from '../audit/actor.js';
import { entryValues, recordIn } from '../audit/audit-entry.js';
import { addDays, addSeconds, Clock } from '../common/clock.js';
import { newId } from '../common/ids.js';
import { pageOf, type Page, type PageRequest } from '../common/page.js';
import { Environment } from '../config/environment.js';
import type { SecretDigest } from '../crypto/secret.js';
import { Database } from '../database/database.js';
import { RowsById } from '../database/rows-by-id.js';
import { RefreshTokens, type RefreshToken } from './refresh-token.js';
import * as sql from './session-statements.js';
import { Session } from './session.entity.js';

/** What a session lets its holder have: a refresh token, and what an access token says about them. */
export interface Grant {
  readonly sessionId: string;
  readonly userId: string;
  readonly email: string;
  readonly refreshToken: string;
}

export interface EndedSession {
  readonly sessionId: string;
  readonly userId: string;
}

export type RefreshOutcome =
  | { readonly outcome: 'rotated' | 'repeated'; readonly grant: Grant }
  | { readonly outcome: 'refused'; readonly reason: 'malformed' | 'unknown' | 'forged' }
  | { readonly outcome: 'reused'; readonly sessionId: string; readonly userId: string };

/** Sessions and the rotation of their refresh tokens (RFC 9700 §4.14.2). */
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
  async start(userId: string, email: string, actor: Actor): Promise<Grant | undefined> {
    const token = this.tokens.first(newId());
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
    return started && { sessionId: token.sessionId, userId, email, refreshToken: token.text };
  }

  /** Exchanges a refresh token for its successor. One statement when all is well. */
  async refresh(presented: string, actor: Actor): Promise<RefreshOutcome> {
    const token = this.tokens.parse(presented);
    if (!token) return { outcome: 'refused', reason: 'malformed' };
    const successor = this.tokens.ofGeneration(token.generation + 1, token);
    const now = this.clock.now();
    const expiresAt = addDays(now, this.environment.refreshTokenTtlDays);
    const values = [token.sessionId, token.digest, successor.digest, now, expiresAt];
    const rotated = await this.database.row<{ user_id: string; email: string }>(sql.ROTATE, values);
    if (rotated) return { outcome: 'rotated', grant: grantOf(successor, rotated) };
    return this.replayed(token, successor, now, actor);
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
    // Whoever holds a token of a session may end it as its user. Reuse means that nobody knows who that is.
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

  /** Whether a session goes on and its user is active. */
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

  /**
   * A token that did not rotate. Its immediate parent, while the successor is unused and young, means that an answer
   * was lost: the caller gets that same successor. Anything older or later is reuse, and ends the session. The end is
   * committed here; the caller refuses afterwards, so that no error can roll it back.
   */
  private async replayed(
    token: RefreshToken,
    successor: RefreshToken,
    now: Date,
    actor: Actor,
  ): Promise<RefreshOutcome> {
    const row = await this.database.row<ReplayRow>(sql.READ_FOR_REPLAY, [token.sessionId, now]);
    if (!row) return { outcome: 'refused', reason: 'unknown' };
    if (token.generation >= row.generation || !this.tokens.belongsTo(token, row.generation, row.token_digest)) {
      return { outcome: 'refused', reason: 'forged' };
    }
    const isParent = token.generation + 1 === row.generation;
    if (isParent && now <= addSeconds(row.rotated_at, this.environment.refreshGraceSeconds)) {
      return { outcome: 'repeated', grant: grantOf(successor, row) };
    }
    const reused = { sessionId: token.sessionId, userId: row.user_id };
    await this.end(reused, 'reuse', actor);
    return { outcome: 'reused', ...reused };
  }
}

interface LiveSession {
  readonly id: string;
  readonly user_id: string;
}

type LogoutRow = Pick<ReplayRow, 'user_id' | 'token_digest' | 'generation'>;

interface ReplayRow {
  readonly user_id: string;
  readonly email: string;
  readonly token_digest: SecretDigest;
  readonly generation: number;
  readonly rotated_at: Date;
}

function grantOf(token: RefreshToken, user: { user_id: string; email: string }): Grant {
  return { sessionId: token.sessionId, userId: user.user_id, email: user.email, refreshToken: token.text };
}
