/**
 * Changes of a user's set of factors, by the user or by an operator. Each locks the row of the user, as a change of the
 * password and the end of all sessions do, and moves `users.factors_changed_at`, so that a login that has read the
 * former set is refused. When a call that ended sessions has answered, no verifier accepts their tokens.
 */
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { toUserActor, type Actor, type OwnCall } from '../../foundation/access/actor.js';
import { createRefusal } from '../../foundation/access/doors.js';
import { toUserEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { isId } from '../../foundation/common/ids.js';
import type { AuditEventName } from '../../foundation/common/security-events.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { Outbox } from '../mail/outbox.js';
import type { NoticeKind } from '../mail/templates.js';
import { ProblemException, problems, type Problem } from '../../foundation/problems/problems.js';
import { Propagation } from '../revocation/propagation.js';
import { SessionsService } from '../tokens/sessions.service.js';
import { Reauthentication, type OwnProof } from './reauthentication.js';
import { RefusedProofError, SecondFactorsService } from './second-factors.service.js';
import { lockAccountIfUnchanged } from '../users/account-statements.js';
import { OneTimeTokens } from '../users/one-time-tokens.js';
import { buildHasSecondFactor, createWrongPassword, type AccountState } from '../passwords/password-verifier.js';

/** The events about which the user gets a mail. */
const NOTICES: Readonly<Partial<Record<AuditEventName, NoticeKind>>> = {
  'user.totp.enrolled': 'factor_added',
  'user.passkey.added': 'factor_added',
  'user.totp.removed': 'factors_removed',
  'user.passkey.removed': 'factors_removed',
};
const TOUCH_USER = `UPDATE users SET factors_changed_at =
    GREATEST($2::timestamptz, factors_changed_at + interval '1 millisecond') WHERE id = $1 RETURNING id, email`;
const READ_STATE = `SELECT
    ${buildHasSecondFactor('$1')} AS "hasFactor",
    EXISTS (SELECT FROM sessions WHERE id = $2 AND user_id = $1 AND ended_at IS NULL) AS "isLive"`;
/** Recovery codes are deleted with their app. */
const REMOVE_FACTORS = `WITH
    totp AS (DELETE FROM totp_factors WHERE user_id = $1 RETURNING user_id),
    keys AS (DELETE FROM passkeys WHERE user_id = $1 RETURNING user_id)
  SELECT (SELECT count(*)::integer FROM totp) AS totp, (SELECT count(*)::integer FROM keys) AS passkeys`;

interface FactorChange<Result> {
  readonly result: Result;
  readonly event: AuditEventName;
  readonly details?: Readonly<Record<string, unknown>>;
  /** Whether the set of factors stays the same. */
  readonly keepsFactors?: boolean;
}

export type Change<Result> = (transaction: EntityManager) => Promise<FactorChange<Result>>;
type PasswordMoment = Pick<AccountState, 'passwordChangedAt'>;
type Owner = Pick<AccountState, 'id' | 'email' | 'passwordChangedAt'>;

interface LockedState {
  readonly isUnchanged: boolean;
  readonly isLive: boolean;
  readonly hasFactor: boolean;
}

interface Commit<Result> {
  readonly owner: Owner;
  /** Null for a user who is not logged in. */
  readonly sessionId: string | null;
  readonly actor: Actor;
  /** Throws the refusal of a change that the locked state does not allow. */
  readonly requireState: (state: LockedState) => void;
  readonly change: Change<Result>;
}

@Injectable()
export class FactorChanges {
  constructor(
    private readonly dataSource: DataSource,
    private readonly reauthentication: Reauthentication,
    private readonly sessions: SessionsService,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
    private readonly outbox: Outbox,
    private readonly factors: SecondFactorsService,
    private readonly tokens: OneTimeTokens,
    private readonly clock: ComparedClock,
  ) {}

  /** Commits a change that the password, and a fresh factor if there is one, authorise. */
  async commitAction<Result>(call: OwnCall, proof: OwnProof, change: Change<Result>): Promise<Result> {
    return this.reauthentication.authorizeAction(call, proof, (verified, useProof) =>
      this.commitChange(call, verified, async (transaction) => {
        await useProof(transaction);
        return change(transaction);
      }),
    );
  }

  /**
   * Authorises a change that a later step commits.
   * @param prepare refuses it, before a code is consumed
   * @returns what `prepare` returned, and the account for which the proof was verified
   */
  async authorizeStep<Result>(call: OwnCall, proof: OwnProof, prepare: () => Promise<Result>) {
    return this.reauthentication.authorizeAction(call, proof, async (verified, useProof) => {
      const prepared = await prepare();
      await this.dataSource.transaction(useProof);
      return { prepared, verified };
    });
  }

  /**
   * Commits and records a change, if the session is live and the password unchanged. When the change adds the first
   * factor, the other sessions end, because they began without one.
   * @param moment the password that was entered again for this call, or for the step that it completes (an enrolment, a
   * registration)
   * @param createVoidError creates the refusal for a password that was changed since
   * @throws {ProblemException} that refusal; invalid_access_token when the session has ended
   */
  async commitChange<Result>(
    { principal, actor }: OwnCall,
    { passwordChangedAt }: PasswordMoment,
    change: Change<Result>,
    createVoidError: () => Error = () => createWrongPassword(principal.userId, 'changed_meanwhile'),
  ): Promise<Result> {
    const { userId, sessionId, email } = principal;
    const owner = { id: userId, email, passwordChangedAt };
    const requireState = ({ isLive, isUnchanged }: LockedState) => {
      if (!isLive) throw createRefusal('user', 'session_ended', { user_id: userId });
      if (!isUnchanged) throw createVoidError();
    };
    return this.commit({ owner, sessionId, actor, requireState, change });
  }

  /**
   * Commits a step of the enrolment of the first factor, for a user who is not logged in because the login demands one.
   * @throws {RefusedProofError} when the account has changed since, or has a factor: the password alone adds no second one
   */
  async commitAtLogin<Result>(owner: Owner, client: Actor, change: Change<Result>): Promise<Result> {
    const actor = toUserActor(client, owner.id);
    const requireState = ({ isUnchanged, hasFactor }: LockedState) => {
      if (!isUnchanged || hasFactor) throw new RefusedProofError('changed_meanwhile', owner.id);
    };
    return this.commit({ owner, sessionId: null, actor, requireState, change });
  }

  /** Refuses a repeated change. It waits like the first call, which may have ended sessions and still be waiting. */
  async refuseRepetition(problem: Problem): Promise<never> {
    await this.propagation.awaitPropagation();
    throw new ProblemException(problem);
  }

  /** Removes all factors of a user who has lost them, for an operator, and ends the user's sessions. Idempotent. */
  async removeAllFactors(userId: string, actor: Actor): Promise<void> {
    await this.propagation.propagateAfter(async () => {
      if (!isId(userId)) throw new ProblemException(problems.notFound);
      await this.dataSource.transaction((transaction) => this.removeAsOperator(transaction, userId, actor));
    });
  }

  private async removeAsOperator(transaction: EntityManager, id: string, actor: Actor): Promise<void> {
    const [[user]] = await transaction.query<[{ id: string; email: string }[], number]>(TOUCH_USER, [
      id,
      this.clock.now(),
    ]);
    if (!user) throw new ProblemException(problems.notFound);
    const userId = user.id;
    const [{ totp, passkeys }] = await transaction.query<[{ totp: number; passkeys: number }]>(REMOVE_FACTORS, [
      userId,
    ]);
    const count = await this.sessions.endAllSessions(transaction, userId, 'admin');
    const details = { before: { totp: totp > 0, passkeys }, ended_sessions: count };
    const event = toUserEvent('admin.user.factors_removed', actor, userId, { details, logFields: { count } });
    await this.audit.record(transaction, event, totp + passkeys + count > 0);
    const notice = { kind: 'factors_removed', recipient: user.email } as const;
    if (totp + passkeys > 0) await this.outbox.addNotice(transaction, event, notice);
  }

  private async commit<Result>(commit: Commit<Result>): Promise<Result> {
    return this.propagation.propagateAfter(
      async () => {
        const { result, isFirst } = await this.dataSource.transaction((transaction) =>
          this.commitLocked(transaction, commit),
        );
        if (isFirst) await this.propagation.awaitPropagation();
        return result;
      },
      { waitsOnSuccess: false },
    );
  }

  private async commitLocked<Result>(
    transaction: EntityManager,
    { owner, sessionId, actor, requireState, change }: Commit<Result>,
  ): Promise<{ readonly result: Result; readonly isFirst: boolean }> {
    const { id, email: recipient } = owner;
    const isUnchanged = await lockAccountIfUnchanged(transaction, owner);
    // Read after the lock, so that it sees the commit of the transaction that held the lock before.
    const before = await readState(transaction, id, sessionId);
    requireState({ ...before, isUnchanged });
    const { result, event, details, keepsFactors } = await change(transaction);
    if (!keepsFactors) await transaction.query(TOUCH_USER, [id, this.clock.now()]);
    const after = keepsFactors ? before : await readState(transaction, id, sessionId);
    const isLast = before.hasFactor && !after.hasFactor;
    if (isLast && this.factors.isFactorRequired()) throw new ProblemException(problems.lastSecondFactor);
    const isFirst = !before.hasFactor && after.hasFactor;
    const count = isFirst
      ? await this.sessions.endAllSessions(transaction, id, 'second_factor_added', sessionId)
      : undefined;
    if (isFirst) await this.voidEmailChange(transaction, id);
    const described = { details: { ...details, ended_sessions: count }, logFields: { count } };
    const recorded = toUserEvent(event, actor, id, described);
    await this.audit.record(transaction, recorded);
    const kind = NOTICES[event];
    if (kind) await this.outbox.addNotice(transaction, recorded, { kind, recipient });
    return { result, isFirst };
  }

  /** A thief of the password could otherwise confirm, without the factor, a change that was requested before it. */
  private async voidEmailChange(transaction: EntityManager, userId: string): Promise<void> {
    await this.tokens.voidToken(transaction, userId, 'email_change');
    await this.outbox.withdrawRequest(transaction, userId, 'email_change');
  }
}

async function readState(transaction: EntityManager, userId: string, sessionId: string | null) {
  const [state] = await transaction.query<[Omit<LockedState, 'isUnchanged'>]>(READ_STATE, [userId, sessionId]);
  return state;
}
