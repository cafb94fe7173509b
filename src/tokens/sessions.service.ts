import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { MoreThan, type Repository } from 'typeorm';
import { addDays, addSeconds, Clock } from '../common/clock.js';
import { newId } from '../common/ids.js';
import { pageOf, type Page, type PageRequest } from '../common/page.js';
import { Environment } from '../config/environment.js';
import type { SecretDigest } from '../crypto/secret.js';
import { Database } from '../database/database.js';
import { RefreshTokens, type RefreshToken } from './refresh-token.js';
import * as sql from './session-statements.js';
import { Session, type SessionEndReason } from './session.entity.js';

/** What a session lets its holder have: a refresh token, and what an access token says about them. */
export interface Grant {
  readonly sessionId: string;
  readonly userId: string;
  readonly email: string;
  readonly refreshToken: string;
}

export type RefreshOutcome =
  | { readonly outcome: 'rotated' | 'repeated'; readonly grant: Grant }
  | { readonly outcome: 'refused'; readonly reason: 'malformed' | 'unknown' | 'forged' }
  | { readonly outcome: 'reused'; readonly sessionId: string; readonly userId: string };

/** Sessions and the rotation of their refresh tokens (RFC 9700 §4.14.2). */
@Injectable()
export class SessionsService {
  constructor(
    @InjectRepository(Session) private readonly sessions: Repository<Session>,
    private readonly database: Database,
    private readonly tokens: RefreshTokens,
    private readonly environment: Environment,
    private readonly clock: Clock,
  ) {}

  /** @returns undefined when the user was disabled or deleted meanwhile */
  async start(userId: string, email: string): Promise<Grant | undefined> {
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
    const started = await this.database.row(sql.START_SESSION, values);
    return started && { sessionId: token.sessionId, userId, email, refreshToken: token.text };
  }

  /** Exchanges a refresh token for its successor. One statement when all is well. */
  async refresh(presented: string): Promise<RefreshOutcome> {
    const token = this.tokens.parse(presented);
    if (!token) return { outcome: 'refused', reason: 'malformed' };
    const successor = this.tokens.ofGeneration(token.generation + 1, token);
    const now = this.clock.now();
    const expiresAt = addDays(now, this.environment.refreshTokenTtlDays);
    const values = [token.sessionId, token.digest, successor.digest, now, expiresAt];
    const rotated = await this.database.row<{ user_id: string; email: string }>(sql.ROTATE, values);
    if (rotated) return { outcome: 'rotated', grant: grantOf(successor, rotated) };
    return this.replayed(token, successor, now);
  }

  /**
   * Ends the session of a refresh token, whichever of its generations is presented: a refresh that runs at the
   * same time leaves nothing alive.
   * @returns the user whose session it was, or undefined when there was nothing to end
   */
  async endByRefreshToken(presented: string): Promise<{ sessionId: string; userId: string } | undefined> {
    const token = this.tokens.parse(presented);
    if (!token) return undefined;
    const { sessionId } = token;
    const row = await this.database.row<{ token_digest: SecretDigest; generation: number }>(sql.READ_FOR_LOGOUT, [
      sessionId,
    ]);
    // The current token is good by its digest alone, also when SECRET_KEY has changed since it was made.
    const isIts =
      row?.token_digest.equals(token.digest) === true ||
      (row && this.tokens.belongsTo(token, row.generation, row.token_digest));
    return isIts ? this.end(sessionId, 'logout') : undefined;
  }

  /** @returns the user whose session it was, or undefined when it had ended before */
  async end(sessionId: string, reason: SessionEndReason): Promise<{ sessionId: string; userId: string } | undefined> {
    const values = [sessionId, this.clock.now(), reason];
    const ended = await this.database.row<{ user_id: string }>(sql.END_SESSION, values);
    return ended && { sessionId, userId: ended.user_id };
  }

  /** @returns how many sessions ended */
  async endAll(userId: string, reason: SessionEndReason): Promise<number> {
    return (await this.database.rows(sql.END_ALL_SESSIONS, [userId, this.clock.now(), reason])).length;
  }

  /** Whether a session goes on and its user is active. */
  async isLive(sessionId: string, userId: string): Promise<boolean> {
    return (await this.database.row(sql.IS_LIVE, [sessionId, userId, this.clock.now()])) !== undefined;
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
  private async replayed(token: RefreshToken, successor: RefreshToken, now: Date): Promise<RefreshOutcome> {
    const row = await this.database.row<ReplayRow>(sql.READ_FOR_REPLAY, [token.sessionId, now]);
    if (!row) return { outcome: 'refused', reason: 'unknown' };
    if (token.generation >= row.generation || !this.tokens.belongsTo(token, row.generation, row.token_digest)) {
      return { outcome: 'refused', reason: 'forged' };
    }
    const isParent = token.generation + 1 === row.generation;
    if (isParent && now <= addSeconds(row.rotated_at, this.environment.refreshGraceSeconds)) {
      return { outcome: 'repeated', grant: grantOf(successor, row) };
    }
    await this.end(token.sessionId, 'reuse');
    return { outcome: 'reused', sessionId: token.sessionId, userId: row.user_id };
  }
}

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
