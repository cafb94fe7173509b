import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { toUserActor, type Actor } from '../access/actor.js';
import { toUserEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { Clock } from '../common/clock.js';
import { createId } from '../common/ids.js';
import { Environment } from '../config/environment.js';
import { getViolatedConstraint } from '../database/database-failure.js';
import { Outbox } from '../mail/outbox.js';
import { NewPasswords } from '../passwords/new-passwords.js';
import { ProblemException, problems } from '../problems/problems.js';
import { User } from './users.service.js';

interface NewUser {
  /** Canonical. */
  readonly email: string;
  readonly password: string;
  /** Without a door, the audit log names the new user as the actor. */
  readonly actor: Actor;
  readonly event: 'user.registered' | 'admin.user.created';
}

/** Registers users: themselves, and by an operator. */
@Injectable()
export class Registration {
  constructor(
    private readonly dataSource: DataSource,
    private readonly passwords: NewPasswords,
    private readonly outbox: Outbox,
    private readonly audit: AuditLog,
    private readonly environment: Environment,
    private readonly clock: Clock,
  ) {}

  /** @throws {ProblemException} validation_failed; email_taken; hashing_busy */
  async registerUser({ email, password, actor, event }: NewUser): Promise<User> {
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
      factorsChangedAt: null,
      createdAt: now,
      updatedAt: now,
    };
    await this.insertUser(user, actor, event).catch((error: unknown) => {
      throw getViolatedConstraint(error) === 'users_email_key' ? new ProblemException(problems.emailTaken) : error;
    });
    return user;
  }

  private async insertUser(user: User, actor: Actor, event: NewUser['event']): Promise<void> {
    const { id, email: recipient, createdAt: time } = user;
    await this.dataSource.transaction(async (transaction) => {
      await transaction.insert(User, user);
      if (this.environment.requireVerifiedEmail) {
        // In this transaction: an account without a link could never log in.
        const request = { kind: 'email_verification', recipient, userId: null, requester: actor } as const;
        await this.outbox.addWith(transaction, request);
      }
      const named = actor.door === 'open' ? toUserActor(actor, id) : actor;
      const details = { after: { is_active: true } };
      await this.audit.record(transaction, toUserEvent(event, named, id, { time, details }));
    });
  }
}
