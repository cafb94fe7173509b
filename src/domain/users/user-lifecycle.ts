/**
 * Registration, deletion, and what operators change about an account: whether it is active, its address, and whether
 * that is verified. A new address ends all sessions, voids every link, and is announced to both addresses. A change
 * without effect leaves no audit event. The last part has the statements of acts that a password authorises.
 */
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { toUserActor, type Actor } from '../../foundation/access/actor.js';
import { createRefusal } from '../../foundation/access/doors.js';
import { toUserEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { PASSWORD_DETAIL } from '../../foundation/common/fields.js';
import { createId, isId } from '../../foundation/common/ids.js';
import type { AuditEventName } from '../../foundation/common/security-events.js';
import { Environment } from '../../foundation/config/environment.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { isMailEnabled } from '../mail/mail-transport.js';
import { Departures } from '../households/departures.js';
import { Outbox } from '../mail/outbox.js';
import { NewPasswords } from '../passwords/new-passwords.js';
import { NO_PASSWORD, type PasswordHash } from '../passwords/password-hasher.js';
import { createWrongPassword } from '../passwords/password-verifier.js';
import { ProblemException, problems, refuseField } from '../../foundation/problems/problems.js';
import { Propagation } from '../revocation/propagation.js';
import { Throttle } from '../../foundation/throttling/throttle.js';
import { SessionsService } from '../tokens/sessions.service.js';
import { OneTimeTokens, type IssuedLink } from './one-time-tokens.js';
import { translateTakenEmail } from './users.service.js';
import { User } from './user.entity.js';

interface NewUser {
  readonly email: string;
  readonly password: string;
}

/** Without a password, an operator invites the user. */
type RequestedUser = Pick<NewUser, 'email'> & { readonly password?: string | undefined };

interface CreatedUser {
  readonly user: User;
  /** Undefined when it is sent by mail, or none is needed. */
  readonly invitation: IssuedLink | undefined;
}

@Injectable()
export class Registration {
  constructor(
    private readonly dataSource: DataSource,
    private readonly passwords: NewPasswords,
    private readonly tokens: OneTimeTokens,
    private readonly outbox: Outbox,
    private readonly throttle: Throttle,
    private readonly audit: AuditLog,
    private readonly environment: Environment,
    private readonly clock: ComparedClock,
  ) {}

  async registerUser({ email, password }: RequestedUser, actor: Actor): Promise<User> {
    if (this.environment.registration === 'closed') throw new ProblemException(problems.registrationClosed);
    if (password === undefined) refuseField('/password', PASSWORD_DETAIL);
    await this.throttle.refuseBusyNetwork('user.registration.throttled', actor.address);
    try {
      return await this.insertUser({ email, password }, actor, 'user.registered');
    } catch (error) {
      this.throttle.countBusyRefusal(error, actor.address);
      throw error;
    }
  }

  /** Without a password the user chooses one, by an invitation: ASVS 6.4.6 wants no operator to know it. */
  async registerUserByOperator({ email, password }: RequestedUser, actor: Actor): Promise<CreatedUser> {
    if (password === undefined) return this.inviteUser(email, actor);
    if (this.environment.adminSetPasswords === 'refused')
      refuseField('/password', 'is not accepted: leave it out, and the user gets an invitation to choose one');
    return { user: await this.insertUser({ email, password }, actor, 'admin.user.created'), invitation: undefined };
  }

  /** Sends the invitation; without a mail server returns it, for the operator to hand over. */
  private async inviteUser(email: string, actor: Actor): Promise<CreatedUser> {
    const user = toInvitedUser(email, this.clock.now());
    const save = async (transaction: EntityManager): Promise<IssuedLink | undefined> => {
      await transaction.insert(User, user);
      const details = { after: { is_active: true, invited: true } };
      await this.audit.record(transaction, toUserEvent('admin.user.created', actor, user.id, { details }));
      if (!isMailEnabled(this.environment)) return this.tokens.issueLink(transaction, user.id, 'account_invitation');
      const request = { kind: 'account_invitation', recipient: email, userId: user.id, requester: actor } as const;
      await this.outbox.addRequestWith(transaction, request);
      return undefined;
    };
    return { user, invitation: await translateTakenEmail(this.dataSource.transaction(save)) };
  }

  private async insertUser({ email, password }: NewUser, actor: Actor, event: AuditEventName): Promise<User> {
    const given = { password, email, pointer: '/password' };
    const passwordHash = await this.passwords.hashNewPassword(given, actor, actor.door === 'admin');
    const user = toNewUser(email, passwordHash, this.clock.now());
    const save = async (transaction: EntityManager): Promise<void> => {
      await transaction.insert(User, user);
      if (this.environment.requireVerifiedEmail) {
        // Part of the transaction, because an account without a link could never log in.
        const request = { kind: 'email_verification', recipient: email, userId: null, requester: actor } as const;
        await this.outbox.addRequestWith(transaction, request);
      }
      // The audit log names the new user as the actor when no door has authenticated one.
      const named = actor.door === 'open' ? toUserActor(actor, user.id) : actor;
      const details = { after: { is_active: true } };
      await this.audit.record(transaction, toUserEvent(event, named, user.id, { time: user.createdAt, details }));
    };
    await translateTakenEmail(this.dataSource.transaction(save));
    return user;
  }
}

function toNewUser(email: string, passwordHash: PasswordHash, now: Date): User {
  return {
    id: createId(),
    email,
    passwordHash,
    passwordChangedAt: now,
    isActive: true,
    emailVerifiedAt: null,
    factorsChangedAt: null,
    createdAt: now,
    updatedAt: now,
  };
}

/** A user without a password, who chooses one by an invitation. */
export function toInvitedUser(email: string, now: Date): User {
  return { ...toNewUser(email, NO_PASSWORD, now), passwordChangedAt: null };
}

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

type PasswordState = Pick<User, 'id' | 'passwordChangedAt'>;

/**
 * An act that a password authorises locks the row of the account, and requires that the account is active and its
 * password unchanged since it was verified. Of two acts that race, the second one is refused.
 */
const IS_UNCHANGED = `id = $1 AND is_active AND password_changed_at IS NOT DISTINCT FROM $2::timestamptz`;

/** Strictly increases the moment, which identifies the password, even when the clock of a replica is slow. */
const SET_PASSWORD = `UPDATE users
  SET password_hash = $3, updated_at = $4,
      password_changed_at = GREATEST($4::timestamptz, password_changed_at + interval '1 millisecond')
  WHERE ${IS_UNCHANGED}`;
const DELETE = `DELETE FROM users WHERE ${IS_UNCHANGED}`;
const LOCK = `SELECT id FROM users WHERE ${IS_UNCHANGED} FOR NO KEY UPDATE`;

/**
 * Sets a new password of an existing account. The only other statement that updates a hash, the rehash at a login,
 * keeps the password.
 * @throws {ProblemException} as {@link lockAccount}
 */
export async function setPassword(
  transaction: EntityManager,
  account: PasswordState,
  passwordHash: PasswordHash,
  now: Date,
): Promise<void> {
  const values = [account.id, account.passwordChangedAt, passwordHash, now];
  const [, count] = await transaction.query<[unknown, number]>(SET_PASSWORD, values);
  if (count === 0) await refuseChanged(transaction, account);
}

/**
 * Deletes the account, and by foreign keys everything that belongs to it except the audit log.
 * @throws {ProblemException} as {@link lockAccount}
 */
export async function deleteAccount(transaction: EntityManager, account: PasswordState): Promise<void> {
  const [, count] = await transaction.query<[unknown, number]>(DELETE, [account.id, account.passwordChangedAt]);
  if (count === 0) await refuseChanged(transaction, account);
}

/**
 * @throws {ProblemException} wrong_password when the password was changed meanwhile; invalid_access_token when the
 * account was deleted or disabled
 */
export async function lockAccount(transaction: EntityManager, account: PasswordState): Promise<void> {
  if (!(await lockIfUnchanged(transaction, account))) await refuseChanged(transaction, account);
}

export async function lockIfUnchanged(
  transaction: EntityManager,
  { id, passwordChangedAt }: PasswordState,
): Promise<boolean> {
  return (await transaction.query<unknown[]>(LOCK, [id, passwordChangedAt])).length > 0;
}

async function refuseChanged(transaction: EntityManager, { id }: PasswordState): Promise<never> {
  const isActive = await transaction.existsBy(User, { id, isActive: true });
  throw isActive
    ? createWrongPassword(id, 'changed_meanwhile')
    : createRefusal('user', 'session_ended', { user_id: id });
}
