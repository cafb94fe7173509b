/**
 * Sessions: a login starts one (new-sessions.ts), a refresh rotates its token (refresh-tokens.ts), and
 * SESSION_END_REASONS lists what ends it. A session is live until it has ended, reaches its absolute expiry, or its
 * user is disabled. Ends are final and idempotent: one conditional UPDATE, whose audit event is recorded in the same
 * statement or transaction.
 */
import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { In, IsNull, MoreThan, type EntityManager, type Repository } from 'typeorm';
import { toUserActor, type Actor } from '../../foundation/access/actor.js';
import { toUserEvent, withAuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { isId } from '../../foundation/common/ids.js';
import { Environment } from '../../foundation/config/environment.js';
import type { SecretDigest } from '../../foundation/crypto/secret.js';
import { ComparedClock, WrongClockError } from '../../foundation/database/compared-clock.js';
import { Database, ANY_GIVEN_ID, RowsById, type Statement } from '../../foundation/database/database.js';
import { toErrorFields, Log } from '../../foundation/logging/log.js';
import { MetricsRegistry, cacheQuery } from '../../foundation/metrics/metrics-registry.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { MEMBERSHIPS_OF_SESSION } from './memberships.js';
import { Session, type SessionEndReason } from './session.entity.js';
import { findPage, type Page, type PageRequest } from '../../foundation/database/page.js';

/**
 * The SQL condition on a live session, for statements that join the users.
 * @param expiry `expires_at` for its refresh token, `absolute_expires_at` for its access tokens
 * @param now the parameter with the time
 */
export const buildIsLive = (expiry: 'expires_at' | 'absolute_expires_at', now: `$${number}`): string =>
  `sessions.ended_at IS NULL AND sessions.${expiry} > ${now} AND users.is_active`;

const END_SESSION = withAuditEvent({
  name: 'sessions_end',
  text: 'UPDATE sessions SET ended_at = $2, end_reason = $3 WHERE id = $1 AND ended_at IS NULL RETURNING user_id',
});

/** Ends every session of a user except `$4`, which may be null. */
const END_ALL_SESSIONS = `WITH locked AS (
    SELECT id FROM sessions
    WHERE user_id = $1 AND ended_at IS NULL AND id IS DISTINCT FROM $4::uuid ORDER BY id FOR UPDATE)
  UPDATE sessions SET ended_at = $2, end_reason = $3 FROM locked WHERE sessions.id = locked.id`;

const END_OTHER_SESSIONS = withAuditEvent({
  name: 'sessions_end_others',
  text: `${END_ALL_SESSIONS} RETURNING sessions.id`,
});

/**
 * Ends a user's sessions beyond the limit: expired ones first, then the oldest, never the new one. A statement after
 * the INSERT, because only its snapshot shows the sessions of parallel logins; it locks rows in the order of their ids
 * against deadlocks.
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

const buildReadLive = (name: string, more = ''): Statement => ({
  name,
  text: `SELECT sessions.id, user_id, email, amr, sessions.created_at, absolute_expires_at${more}
         FROM sessions JOIN users ON users.id = user_id
         WHERE sessions.id = ${ANY_GIVEN_ID} AND ${buildIsLive('absolute_expires_at', '$2')}`,
});

const DELETE_SESSIONS = `WITH deleted AS (DELETE FROM sessions WHERE user_id = $1 RETURNING ended_at)
  SELECT count(*)::integer AS count FROM deleted WHERE ended_at IS NULL`;

export const READ_LIVE = buildReadLive('sessions_read_live');
/** A statement of its own, so that routes that name no households do not pay for them. */
export const READ_LIVE_WITH_HOUSEHOLDS = buildReadLive(
  'sessions_read_live_with_households',
  `, (${MEMBERSHIPS_OF_SESSION}) AS memberships`,
);

const READ_LATER_REFRESH = {
  name: 'sessions_read_later_refresh',
  text: 'SELECT id FROM sessions WHERE id = $1 AND rotated_at > $2',
};

/** Written with LEAST to match `sessions_dead_at_idx`. */
const COUNT_LIVE_SESSIONS = `SELECT count(*)::integer AS live FROM sessions
  WHERE LEAST(expires_at, ended_at) > $1 AND ended_at IS NULL`;
const COUNT_TIMEOUT_MS = 1_000;

interface LiveSession {
  readonly id: string;
  readonly user_id: string;
  readonly email: string;
  readonly amr: readonly string[];
  readonly created_at: Date;
  readonly absolute_expires_at: Date;
  /** Undefined when they were not asked for; null without a household. */
  readonly memberships?: string | null;
}

@Injectable()
export class SessionsService {
  private readonly liveSessions = new RowsById<LiveSession>((ids) =>
    this.database.rows(READ_LIVE, [ids, this.clock.now()]),
  );

  private readonly liveSessionsWithHouseholds = new RowsById<LiveSession>((ids) =>
    this.database.rows(READ_LIVE_WITH_HOUSEHOLDS, [ids, this.clock.now()]),
  );

  constructor(
    @InjectRepository(Session) private readonly sessions: Repository<Session>,
    private readonly database: Database,
    private readonly audit: AuditLog,
    private readonly environment: Environment,
    private readonly clock: ComparedClock,
    private readonly log: Log,
    metrics: MetricsRegistry,
  ) {
    const count = cacheQuery(() => this.countLiveSessions());
    // Every process counts the same rows, so the values of several are aggregated by the maximum.
    metrics.addGauge('live_sessions', 'Sessions that have neither ended nor expired.', count, 'max');
  }

  /** @returns undefined when the session is not live, or belongs to another user */
  async findLiveSession(sessionId: string, userId: string, withHouseholds = false): Promise<LiveSession | undefined> {
    const session = await (withHouseholds ? this.liveSessionsWithHouseholds : this.liveSessions).find(sessionId);
    return session?.user_id === userId ? session : undefined;
  }

  /** @throws {WrongClockError} when the clock of PostgreSQL was set back since the session's token was refreshed */
  async refuseSetBackClock(sessionId: string, now: Date): Promise<void> {
    const later = await this.database.row(READ_LATER_REFRESH, [sessionId, now]);
    if (later) throw new WrongClockError('The clock of PostgreSQL was set back since the access token was signed');
  }

  async listSessions(userId: string, page: PageRequest): Promise<Page<Session>> {
    return findPage(this.sessions, page, { userId });
  }

  async listLiveSessions(userId: string, page: PageRequest): Promise<Page<Session>> {
    return findPage(this.sessions, page, { userId, endedAt: IsNull(), expiresAt: MoreThan(this.clock.now()) });
  }

  /** Reads the whole table. @returns the sessions whose current refresh token has one of these digests */
  async findByDigests(digests: SecretDigest[]): Promise<{ session: Session; isLive: boolean }[]> {
    const found = await this.sessions.findBy({ tokenDigest: In(digests) });
    const now = this.clock.now();
    return found.map((session) => ({ session, isLive: session.endedAt === null && session.expiresAt > now }));
  }

  async endSessionByLogout(sessionId: string, userId: string, actor: Actor): Promise<void> {
    await this.endSession(sessionId, userId, 'logout', toUserActor(actor, userId));
  }

  /** Ends a session that its user chose from the list. Idempotent until the session is purged. */
  async endOwnSession(sessionId: string, userId: string, actor: Actor): Promise<void> {
    // The check stays true until the session is ended, because the user of a session never changes.
    const isOwn = isId(sessionId) && (await this.sessions.existsBy({ id: sessionId, userId }));
    if (!isOwn) throw new ProblemException(problems.notFound);
    await this.endSession(sessionId, userId, 'owner', actor);
  }

  /**
   * Ends a session whose superseded token was presented. The audit event names no actor, because the caller may be an
   * attacker; the refusal writes the log line.
   */
  async endReusedSession(sessionId: string, userId: string, actor: Actor): Promise<void> {
    const time = this.clock.now();
    const details = { session_id: sessionId, reason: 'reuse' };
    const event = { event: 'session.refresh.reused', actor, time, subject: userId, details } as const;
    await this.audit.execute(END_SESSION, [sessionId, time, 'reuse'], event);
  }

  async endOtherSessions(userId: string, currentId: string, actor: Actor): Promise<void> {
    const values = [userId, this.clock.now(), 'owner', currentId] as const;
    await this.endSessions(END_OTHER_SESSIONS, values, 'owner', actor);
  }

  /** Never rejects, because the new session is already committed. After a failure the next login ends the surplus. */
  async endSurplusSessions(userId: string, newSessionId: string, actor: Actor): Promise<void> {
    const values = [userId, this.clock.now(), this.environment.sessionLimitPerUser, newSessionId] as const;
    await this.endSessions(END_SURPLUS_SESSIONS, values, 'session_limit', actor).catch((error: unknown) => {
      this.log.warn('session_limit_not_enforced', { user_id: userId, error: toErrorFields(error) });
    });
  }

  /** Ends all sessions of a user for an operator. When none was live, only the log has a line. */
  async endSessionsByOperator(userId: string, actor: Actor): Promise<void> {
    await this.sessions.manager.transaction(async (transaction) => {
      const count = await this.endAllSessions(transaction, userId, 'admin');
      const event = toUserEvent('admin.user.sessions_revoked', actor, userId, { count, logFields: { count } });
      await this.audit.record(transaction, event, count > 0);
    });
  }

  /** @param exceptId the session that does not end */
  async endAllSessions(
    transaction: EntityManager,
    userId: string,
    reason: Extract<SessionEndReason, 'admin' | 'disabled' | `password_${string}` | 'second_factor_added'>,
    exceptId: string | null = null,
  ): Promise<number> {
    const values = [userId, this.clock.now(), reason, exceptId];
    const [, count] = await transaction.query<[unknown, number]>(END_ALL_SESSIONS, values);
    return count;
  }

  /** To be called before the account is deleted. @returns how many of its sessions had not ended */
  async deleteSessions(transaction: EntityManager, userId: string): Promise<number> {
    const [row] = await transaction.query<{ count: number }[]>(DELETE_SESSIONS, [userId]);
    return row?.count ?? 0;
  }

  private async endSession(id: string, userId: string, reason: 'logout' | 'owner', actor: Actor): Promise<void> {
    const time = this.clock.now();
    const described = { session_id: id, reason };
    const event = toUserEvent('session.ended', actor, userId, { time, details: described, logFields: described });
    await this.audit.execute(END_SESSION, [id, time, reason], event);
  }

  /** Records one event for all ended sessions, and none if there were none. */
  private async endSessions(
    act: Statement,
    values: readonly [userId: string, time: Date, ...unknown[]],
    reason: SessionEndReason,
    actor: Actor,
  ): Promise<void> {
    const [userId, time] = values;
    const event = { event: 'session.ended', actor, time, subject: userId, details: { reason } } as const;
    const { length: count } = await this.audit.execute(act, [...values], event);
    if (count > 0) this.audit.logOnly(event.event, actor, { user_id: userId, reason, count });
  }

  private async countLiveSessions(): Promise<number> {
    return this.sessions.manager.transaction(async (transaction) => {
      // A slow count must not occupy a connection that requests need.
      await transaction.query(`SET LOCAL statement_timeout = ${COUNT_TIMEOUT_MS}`);
      const [row] = await transaction.query<{ live: number }[]>(COUNT_LIVE_SESSIONS, [this.clock.now()]);
      return row?.live ?? 0;
    });
  }
}
