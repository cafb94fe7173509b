/**
 * What operators change about an account: whether it is active, its address and whether that is verified; and its deletion.
 * Another address ends all sessions and voids every link, and both addresses are told. Each change is idempotent: what changes
 * nothing leaves no audit event.
 */
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import type { Actor } from '../access/actor.js';
import { toUserEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { Clock } from '../common/clock.js';
import { isId } from '../common/ids.js';
import { Environment } from '../config/environment.js';
import { Outbox } from '../mail/outbox.js';
import { ProblemException, problems } from '../problems/problems.js';
import { Propagation } from '../revocation/propagation.js';
import { determineFirstProof, getFirstProof } from './address-proof.js';
import { OneTimeTokens } from './one-time-tokens.js';
import { refuseTakenEmail, User } from './users.service.js';

/** An absent field stays as it is; another address is not verified, unless the change says so. */
export interface UserChange {
  readonly isActive?: boolean | undefined;
  readonly email?: string | undefined;
  readonly isEmailVerified?: boolean | undefined;
}

interface ChangeCall {
  readonly id: string;
  readonly change: UserChange;
  readonly actor: Actor;
  /** Ends the sessions of the user. @returns their number */
  readonly endSessions: (transaction: EntityManager, userId: string, reason: 'disabled' | 'admin') => Promise<number>;
}

@Injectable()
export class UserChanges {
  constructor(
    private readonly dataSource: DataSource,
    private readonly tokens: OneTimeTokens,
    private readonly outbox: Outbox,
    private readonly environment: Environment,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
    private readonly clock: Clock,
  ) {}

  /**
   * When a call that disables the user, or sets the address, has returned, no verifier accepts a token of before.
   * @throws {ProblemException} not_found; email_taken
   */
  async updateUser(call: ChangeCall): Promise<User> {
    const { isActive, email } = call.change;
    const commit = () =>
      refuseTakenEmail(this.dataSource.transaction((transaction) => this.commitUpdate(transaction, call)));
    return isActive === false || email !== undefined ? this.propagation.propagateAfter(commit) : commit();
  }

  /**
   * Deletes the account; the foreign keys delete its sessions. When it has returned, no verifier accepts a token of the user.
   */
  async deleteUser(id: string, actor: Actor): Promise<void> {
    await this.propagation.propagateAfter(() =>
      this.dataSource.transaction(async (transaction) => {
        const { id: userId, isActive } = await lockUser(transaction, id);
        await transaction.delete(User, { id: userId });
        const details = { before: { is_active: isActive } };
        await this.audit.record(transaction, toUserEvent('admin.user.deleted', actor, userId, { details }));
      }),
    );
  }

  private async commitUpdate(transaction: EntityManager, call: ChangeCall): Promise<User> {
    const { id, change, actor, endSessions } = call;
    const before = await lockUser(transaction, id);
    const now = this.clock.now();
    const proof = await this.determineProof(transaction, before, change, now);
    const { isActive = before.isActive, email = before.email } = change;
    const after = { ...before, isActive, email, ...proof, updatedAt: now };
    const isMoved = email !== before.email;
    const isProofChanged = !before.emailVerifiedAt !== !after.emailVerifiedAt;
    const reason = change.isActive === false ? 'disabled' : isMoved ? 'admin' : undefined;
    const count = reason ? await endSessions(transaction, before.id, reason) : 0;
    const toFields = (user: User) => ({
      is_active: user.isActive,
      ...(isProofChanged && { email_verified: user.emailVerifiedAt !== null }),
    });
    // The audit log has no addresses.
    const changes = { before: toFields(before), after: { ...toFields(after), ...(isMoved && { email: 'another' }) } };
    const event = toUserEvent('admin.user.updated', actor, before.id, {
      time: now,
      details: { ...changes, ended_sessions: count },
      logFields: { reason: isMoved || isProofChanged ? 'email' : isActive ? 'enabled' : 'disabled', count },
    });
    const hasEffect = isMoved || isProofChanged || before.isActive !== isActive || count > 0;
    await this.audit.record(transaction, event, hasEffect);
    if (!hasEffect) return before;
    await transaction.update(User, { id: before.id }, { isActive, email, ...proof, updatedAt: now });
    if (isMoved) await this.announceAddress(transaction, before, after, actor);
    return after;
  }

  private async determineProof(
    transaction: EntityManager,
    user: User,
    { email = user.email, isEmailVerified }: UserChange,
    now: Date,
  ): Promise<Pick<User, 'emailVerifiedAt' | 'firstProofAt'>> {
    const isMoved = email !== user.email;
    const { emailVerifiedAt, firstProofAt } = user;
    const isVerified = isEmailVerified ?? (!isMoved && emailVerifiedAt !== null);
    if (!isMoved && isVerified === (emailVerifiedAt !== null)) return { emailVerifiedAt, firstProofAt };
    if (!isVerified && !isMoved) return { emailVerifiedAt: null, firstProofAt: getFirstProof(user) };
    const proof = await determineFirstProof(transaction, user, email, now);
    return { emailVerifiedAt: isVerified ? proof : null, firstProofAt: proof };
  }

  private async announceAddress(
    transaction: EntityManager,
    { id, email: formerEmail }: User,
    { email, emailVerifiedAt }: User,
    actor: Actor,
  ): Promise<void> {
    await this.tokens.voidTokens(transaction, id);
    await this.outbox.withdraw(transaction, id, 'email_change');
    const act = { subject: id, actor };
    await this.outbox.addNotice(transaction, act, { kind: 'email_changed', recipient: formerEmail });
    await this.outbox.addNotice(transaction, act, { kind: 'email_set', recipient: email });
    if (!this.environment.requireVerifiedEmail || emailVerifiedAt) return;
    // Without a link, the account could never log in.
    const request = { kind: 'email_verification', recipient: email, userId: null, requester: actor } as const;
    await this.outbox.addWith(transaction, request);
  }
}

async function lockUser(transaction: EntityManager, id: string): Promise<User> {
  const lock = { mode: 'pessimistic_write' } as const;
  const user = isId(id) ? await transaction.findOne(User, { where: { id }, lock }) : null;
  if (!user) throw new ProblemException(problems.notFound);
  return user;
}
