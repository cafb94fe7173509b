/**
 * Registration, by the user or by an operator. An operator's user without a password gets an invitation to choose one.
 * The account is created together with its audit event.
 */
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { toUserActor, type Actor } from '../../foundation/access/actor.js';
import { toUserEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { PASSWORD_DETAIL } from '../../foundation/common/fields.js';
import { createId } from '../../foundation/common/ids.js';
import { Environment } from '../../foundation/config/environment.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { isMailEnabled } from '../mail/mail-transport.js';
import { Outbox } from '../mail/outbox.js';
import { NewPasswords } from '../passwords/new-passwords.js';
import { NO_PASSWORD, type PasswordHash } from '../passwords/password-hasher.js';
import { ProblemException, problems, refuseField } from '../../foundation/problems/problems.js';
import { Throttle } from '../../foundation/throttling/throttle.js';
import { OneTimeTokens, type IssuedLink } from './one-time-tokens.js';
import { translateTakenEmail } from './users.service.js';
import { User } from './user.entity.js';
import type { AuditEventName } from '../../foundation/common/security-events.js';

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
