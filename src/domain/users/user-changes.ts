/**
 * What operators change about an account: its deletion, whether it is active, its address, and whether that is verified.
 * A new address ends all sessions, voids every link, and is announced to both addresses. A change without effect leaves
 * no audit event.
 */
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import type { Actor } from '../../foundation/access/actor.js';
import { toUserEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { isId } from '../../foundation/common/ids.js';
import { Environment } from '../../foundation/config/environment.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { Departures } from '../households/departures.js';
import { Outbox } from '../mail/outbox.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { Propagation } from '../revocation/propagation.js';
import { SessionsService } from '../tokens/sessions.service.js';
import { OneTimeTokens } from './one-time-tokens.js';
import { translateTakenEmail } from './users.service.js';
import { User } from './user.entity.js';

/** An undefined field does not change. A new address is unverified unless the change says otherwise. */
export interface UserChange {
  readonly isActive?: boolean | undefined;
  readonly email?: string | undefined;
  readonly isEmailVerified?: boolean | undefined;
}

@Injectable()
export class UserChanges {
  constructor(
    private readonly dataSource: DataSource,
    private readonly sessions: SessionsService,
    private readonly tokens: OneTimeTokens,
    private readonly outbox: Outbox,
    private readonly departures: Departures,
    private readonly environment: Environment,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
    private readonly clock: ComparedClock,
  ) {}

  /**
   * After a call that disables the user or sets the address, no verifier accepts an earlier token.
   * @throws {ProblemException} not_found; email_taken
   */
  async updateUser(id: string, change: UserChange, actor: Actor): Promise<User> {
    const { isActive, email } = change;
    const commit = () =>
      translateTakenEmail(
        this.dataSource.transaction((transaction) => this.commitUpdate(transaction, id, change, actor)),
      );
    return isActive === false || email !== undefined ? this.propagation.propagateAfter(commit) : commit();
  }

  /** Deletes the account and its sessions. Afterwards no verifier accepts a token of the user. */
  async deleteUser(id: string, actor: Actor): Promise<void> {
    await this.propagation.propagateAfter(() =>
      this.departures.deleteWithMemberships(id, async (transaction, memberships) => {
        const { id: userId, isActive } = await lockUser(transaction, id);
        await this.departures.endMemberships(transaction, userId, memberships, actor);
        const count = await this.sessions.deleteSessions(transaction, userId);
        await transaction.delete(User, { id: userId });
        const details = { before: { is_active: isActive }, ended_sessions: count };
        await this.audit.record(transaction, toUserEvent('admin.user.deleted', actor, userId, { details }));
      }),
    );
  }

  private async commitUpdate(transaction: EntityManager, id: string, change: UserChange, actor: Actor): Promise<User> {
    const before = await lockUser(transaction, id);
    const now = this.clock.now();
    const { isActive = before.isActive, email = before.email } = change;
    const isMoved = email !== before.email;
    const isVerified = change.isEmailVerified ?? (!isMoved && before.emailVerifiedAt !== null);
    const emailVerifiedAt = isVerified ? ((isMoved ? null : before.emailVerifiedAt) ?? now) : null;
    const after = { ...before, isActive, email, emailVerifiedAt, updatedAt: now };
    const isProofChanged = !before.emailVerifiedAt !== !after.emailVerifiedAt;
    const reason = change.isActive === false ? 'disabled' : isMoved ? 'admin' : undefined;
    // Part of the transaction, so that no session starts after the change.
    const count = reason ? await this.sessions.endAllSessions(transaction, before.id, reason) : 0;
    // A code must not outlive the rights of its issuer.
    if (!isActive) await this.departures.cancelCodes(transaction, { issuedBy: before.id }, actor);
    const toFields = (user: User) => ({
      is_active: user.isActive,
      ...(isProofChanged && { email_verified: user.emailVerifiedAt !== null }),
    });
    // The audit log contains no e-mail addresses.
    const changes = { before: toFields(before), after: { ...toFields(after), ...(isMoved && { email: 'another' }) } };
    const event = toUserEvent('admin.user.updated', actor, before.id, {
      time: now,
      details: { ...changes, ended_sessions: count },
      logFields: { reason: before.isActive === isActive ? 'email' : isActive ? 'enabled' : 'disabled', count },
    });
    const hasEffect = isMoved || isProofChanged || before.isActive !== isActive || count > 0;
    await this.audit.record(transaction, event, hasEffect);
    if (!hasEffect) return before;
    await transaction.update(User, { id: before.id }, { isActive, email, emailVerifiedAt, updatedAt: now });
    if (isMoved) await this.announceAddress(transaction, before, after, actor);
    return after;
  }

  private async announceAddress(
    transaction: EntityManager,
    { id, email: formerEmail }: User,
    { email, emailVerifiedAt }: User,
    actor: Actor,
  ): Promise<void> {
    await this.tokens.voidTokens(transaction, id);
    await this.outbox.withdrawRequest(transaction, id, 'email_change');
    const act = { subject: id, actor };
    await this.outbox.addNotice(transaction, act, { kind: 'email_changed', recipient: formerEmail });
    await this.outbox.addNotice(transaction, act, { kind: 'email_set', recipient: email });
    if (!this.environment.requireVerifiedEmail || emailVerifiedAt) return;
    // The account could never log in without a link.
    const request = { kind: 'email_verification', recipient: email, userId: null, requester: actor } as const;
    await this.outbox.addRequestWith(transaction, request);
  }
}

async function lockUser(transaction: EntityManager, id: string): Promise<User> {
  const lock = { mode: 'pessimistic_write' } as const;
  const user = isId(id) ? await transaction.findOne(User, { where: { id }, lock }) : null;
  if (!user) throw new ProblemException(problems.notFound);
  return user;
}
