import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { IsNull, MoreThan, type Repository } from 'typeorm';
import type { Actor } from '../access/actor.js';
import { AuditLog } from '../audit/audit-log.js';
import { Clock } from '../common/clock.js';
import { isId } from '../common/ids.js';
import { findPage, type Page, type PageRequest } from '../http/page.js';
import { ProblemException, problems } from '../problems/problems.js';
import { Session } from './session.entity.js';
import * as sql from './session-statements.js';

/** The sessions of a user, as that user sees and ends them. */
@Injectable()
export class OwnSessions {
  constructor(
    @InjectRepository(Session) private readonly sessions: Repository<Session>,
    private readonly audit: AuditLog,
    private readonly clock: Clock,
  ) {}

  /** The live ones, oldest login first. */
  async list(userId: string, page: PageRequest): Promise<Page<Session>> {
    return findPage(this.sessions, page, { userId, endedAt: IsNull(), expiresAt: MoreThan(this.clock.now()) });
  }

  /**
   * Idempotent: a session that has ended is a success until it is purged.
   * @throws {ProblemException} not_found, also for a session of another user
   */
  async end(sessionId: string, userId: string, actor: Actor): Promise<void> {
    // The user of a session never changes, so this check cannot be outdated when the session is ended.
    const isOwn = isId(sessionId) && (await this.sessions.existsBy({ id: sessionId, userId }));
    if (!isOwn) throw new ProblemException(problems.notFound);
    const time = this.clock.now();
    await this.audit.execute(sql.END_SESSION, [sessionId, time, 'owner'], {
      event: 'session.ended',
      actor,
      time,
      subject: userId,
      details: { session_id: sessionId, reason: 'owner' },
      logFields: { user_id: userId, session_id: sessionId, reason: 'owner' },
    });
  }

  /** Ends all live sessions but one. Without another one, nothing is recorded. */
  async endOthers(userId: string, currentId: string, actor: Actor): Promise<void> {
    const [event, reason, time] = ['session.ended', 'owner', this.clock.now()] as const;
    const audited = { event, actor, time, subject: userId, details: { reason } };
    const ended = await this.audit.execute(sql.END_OTHER_SESSIONS, [userId, time, reason, currentId], audited);
    if (ended.length > 0) this.audit.logOnly(event, actor, { user_id: userId, reason, count: ended.length });
  }
}
