import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { toUserActor, type Actor } from '../access/actor.js';
import { toUserEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { Clock } from '../common/clock.js';
import { createId } from '../common/ids.js';
import type { AuditEventName } from '../common/security-events.js';
import { Environment } from '../config/environment.js';
import { Outbox } from '../mail/outbox.js';
import { NewPasswords } from '../passwords/new-passwords.js';
import { ProblemException, problems } from '../problems/problems.js';
import { Throttle } from '../throttling/throttle.js';
import { refuseTakenEmail, User } from './users.service.js';

interface NewUser {
  readonly email: string;
  readonly password: string;
}

@Injectable()
export class Registration {
  constructor(
    private readonly dataSource: DataSource,
    private readonly passwords: NewPasswords,
    private readonly outbox: Outbox,
    private readonly throttle: Throttle,
    private readonly audit: AuditLog,
    private readonly environment: Environment,
    private readonly clock: Clock,
  ) {}

  async registerUser(given: NewUser, actor: Actor): Promise<User> {
    if (this.environment.registration === 'closed') throw new ProblemException(problems.registrationClosed);
    await this.throttle.refuseBusyNetwork('user.registration.throttled', actor.address);
    try {
      return await this.insertUser(given, actor, 'user.registered');
    } catch (error) {
      this.throttle.countBusyRefusal(error, actor.address);
      throw error;
    }
  }

  async registerUserByOperator(given: NewUser, actor: Actor): Promise<User> {
    return this.insertUser(given, actor, 'admin.user.created');
  }

  private async insertUser({ email, password }: NewUser, actor: Actor, event: AuditEventName): Promise<User> {
    this.passwords.checkNewPassword(password);
    const passwordHash = await this.passwords.hashNewPassword(password, actor, actor.door === 'admin');
    const now = this.clock.now();
    const user: User = {
      id: createId(),
      email,
      passwordHash,
      passwordChangedAt: now,
      isActive: true,
      emailVerifiedAt: null,
      firstProofAt: null,
      factorsChangedAt: null,
      createdAt: now,
      updatedAt: now,
    };
    await refuseTakenEmail(
      this.dataSource.transaction((transaction) => this.commitUser(transaction, user, actor, event)),
    );
    return user;
  }

  private async commitUser(transaction: EntityManager, user: User, actor: Actor, event: AuditEventName): Promise<void> {
    const { id, email: recipient, createdAt: time } = user;
    await transaction.insert(User, user);
    if (this.environment.requireVerifiedEmail) {
      // In this transaction: an account without a link could never log in.
      const request = { kind: 'email_verification', recipient, userId: null, requester: actor } as const;
      await this.outbox.addWith(transaction, request);
    }
    // Without a door, the audit log names the new user as the actor.
    const named = actor.door === 'open' ? toUserActor(actor, id) : actor;
    const details = { after: { is_active: true } };
    await this.audit.record(transaction, toUserEvent(event, named, id, { time, details }));
  }
}
