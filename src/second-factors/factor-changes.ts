import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import type { Actor } from '../access/actor.js';
import { createRefusal } from '../access/doors.js';
import type { UserPrincipal } from '../access/principals.js';
import type { AuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { Clock } from '../common/clock.js';
import { Propagation } from '../revocation/propagation.js';
import { type Problem, ProblemException } from '../problems/problems.js';
import { SessionsService } from '../tokens/sessions.service.js';
import { OwnAccount } from '../users/own-account.js';
import { PasswordVerifier } from '../passwords/password-verifier.js';
import { ProvenOwner } from './proven-owner.js';
import { READ_OWNER, TOUCH_USER } from './factor-statements.js';

interface OwnerState {
  readonly isLive: boolean;
  readonly hasFactor: boolean;
}

/** What was done in the transaction. */
export interface FactorChange<Result> {
  readonly result: Result;
  readonly event: AuditEvent;
  /** Whether the set of factors is as it was. */
  readonly keepsFactors?: boolean;
}

/**
 * Changes that users make to their factors. Each locks the user's row, as a change of the password and the end of all
 * sessions do.
 */
@Injectable()
export class FactorChanges {
  constructor(
    private readonly dataSource: DataSource,
    private readonly passwords: PasswordVerifier,
    private readonly account: OwnAccount,
    private readonly sessions: SessionsService,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
    private readonly clock: Clock,
  ) {}

  /** @throws {ProblemException} wrong_password; too_many_requests; hashing_busy; invalid_access_token */
  async verifyPassword(principal: UserPrincipal, password: string, actor: Actor): Promise<ProvenOwner> {
    return ProvenOwner.byPassword(principal, await this.passwords.reauthenticateUser(principal, password, actor));
  }

  /**
   * Runs a change while the session is live and the password is unchanged, and records it. With the first factor all other
   * sessions end: they began without one. When it has returned, no verifier accepts their tokens. Logins that are
   * being verified are refused: they have read another set of factors.
   * @param change throws to undo itself
   * @throws {ProblemException} the refusal of the owner; invalid_access_token when the session has ended
   */
  async run<Result>(
    owner: ProvenOwner,
    change: (transaction: EntityManager) => Promise<FactorChange<Result>>,
  ): Promise<Result> {
    return this.propagation.propagateAfterRefusal(() => this.commit(owner, change));
  }

  /** Refuses a repeated change. The call that made it may have ended sessions and still be waiting, so this one waits too. */
  async refuseRepetition(problem: Problem): Promise<never> {
    await this.propagation.awaitPropagation();
    throw new ProblemException(problem);
  }

  private async commit<Result>(
    owner: ProvenOwner,
    change: (transaction: EntityManager) => Promise<FactorChange<Result>>,
  ): Promise<Result> {
    const { result, isFirst } = await this.dataSource.transaction(async (transaction) => {
      const { hasFactor } = await this.lock(transaction, owner);
      const changed = await change(transaction);
      if (!changed.keepsFactors) await transaction.query(TOUCH_USER, [owner.userId, this.clock.now()]);
      const isFirstFactor = !hasFactor && (await this.read(transaction, owner)).hasFactor;
      const event = isFirstFactor ? await this.endOthers(transaction, owner, changed.event) : changed.event;
      await this.audit.record(transaction, event);
      return { result: changed.result, isFirst: isFirstFactor };
    });
    if (isFirst) await this.propagation.awaitPropagation();
    return result;
  }

  /** @returns the event with the number of the sessions that ended */
  private async endOthers(
    transaction: EntityManager,
    { userId, sessionId }: ProvenOwner,
    event: AuditEvent,
  ): Promise<AuditEvent> {
    const count = await this.sessions.endAllSessions(transaction, userId, 'second_factor_added', sessionId);
    const { details, logFields } = event;
    return { ...event, details: { ...details, ended_sessions: count }, logFields: { ...logFields, count } };
  }

  private async lock(transaction: EntityManager, owner: ProvenOwner): Promise<OwnerState> {
    const { userId, passwordChangedAt } = owner;
    const isUnchanged = await this.account.lockAccount(transaction, { id: userId, passwordChangedAt });
    // After the lock: a statement of its own sees what its holder before has committed.
    const state = await this.read(transaction, owner);
    if (!state.isLive) throw createRefusal('user', 'session_ended', { user_id: userId });
    if (!isUnchanged) throw owner.createVoidError();
    return state;
  }

  private async read(transaction: EntityManager, { userId, sessionId }: ProvenOwner): Promise<OwnerState> {
    const [state] = await transaction.query<OwnerState[]>(READ_OWNER, [userId, sessionId]);
    return state ?? { isLive: false, hasFactor: false };
  }
}
