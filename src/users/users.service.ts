/**
 * Users: e-mail address, password hash, active or disabled. Sessions are in tokens/.
 * E-mail addresses are canonical (common/email.ts) before they arrive here. Each change commits together with its audit
 * event.
 */
import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import type { EntityManager, Repository } from 'typeorm';
import { toUserActor, type Actor } from '../access/actor.js';
import { AuditLog } from '../audit/audit-log.js';
import { Clock } from '../common/clock.js';
import { Environment } from '../config/environment.js';
import { isId, createId } from '../common/ids.js';
import { toNetworks } from '../common/network.js';
import { findPage, type Page, type PageRequest } from '../http/page.js';
import { ProblemException, problems } from '../problems/problems.js';
import { PasswordHasher } from '../crypto/password-hasher.js';
import { getViolatedConstraint } from '../database/database-failure.js';
import { Database, ANY_GIVEN_ID, RowsById } from '../database/database.js';
import { Outbox } from '../mail/outbox.js';
import { Propagation } from '../revocation/propagation.js';
import { PasswordPolicy } from './password-policy.js';
import { User } from './user.entity.js';

const READ = {
  name: 'users_read',
  text: `SELECT id, email, is_active AS "isActive", created_at AS "createdAt", updated_at AS "updatedAt"
         FROM users WHERE id = ${ANY_GIVEN_ID}`,
};

/** The user as others may see it. */
export type Account = Omit<User, 'passwordHash' | 'passwordChangedAt' | 'emailVerifiedAt' | 'factorsChangedAt'>;

@Injectable()
export class UsersService {
  private readonly accounts = new RowsById<Account>((ids) => this.database.rows(READ, [ids]));

  constructor(
    @InjectRepository(User) private readonly users: Repository<User>,
    private readonly database: Database,
    private readonly hasher: PasswordHasher,
    private readonly policy: PasswordPolicy,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
    private readonly outbox: Outbox,
    private readonly environment: Environment,
    private readonly clock: Clock,
  ) {}

  /**
   * @param email canonical
   * @param event for the audit log; an actor without a door is recorded as the new user
   * @throws {ProblemException} validation_failed; email_taken; hashing_busy
   */
  async register(
    email: string,
    password: string,
    actor: Actor,
    event: 'user.registered' | 'admin.user.created',
  ): Promise<User> {
    this.policy.check(password);
    const turn = { networks: toNetworks(actor.address), isKnown: actor.door === 'admin' };
    const passwordHash = await this.hasher.hash(password, turn);
    const now = this.clock.now();
    const times = { createdAt: now, updatedAt: now, passwordChangedAt: now };
    const user = this.users.create({
      id: createId(),
      email,
      passwordHash,
      isActive: true,
      emailVerifiedAt: null,
      factorsChangedAt: null,
      ...times,
    });
    try {
      await this.users.manager.transaction(async (transaction) => {
        await transaction.insert(User, user);
        if (this.environment.requireVerifiedEmail) await this.requestVerification(transaction, email, actor);
        await this.audit.record(transaction, {
          event,
          actor: actor.door === 'open' ? toUserActor(actor, user.id) : actor,
          time: now,
          subject: user.id,
          details: { after: { is_active: true } },
          logFields: { user_id: user.id },
        });
      });
    } catch (error) {
      if (getViolatedConstraint(error) === 'users_email_key') throw new ProblemException(problems.emailTaken);
      throw error;
    }
    return user;
  }

  /** In the transaction of the registration: the link is mailed, or the account does not exist. */
  private async requestVerification(transaction: EntityManager, recipient: string, actor: Actor): Promise<void> {
    const request = { kind: 'email_verification', recipient, userId: null, requestId: actor.requestId } as const;
    await this.outbox.addWith(transaction, request);
  }

  /** @throws {ProblemException} not_found, also for an id that is not a valid UUID */
  async find(id: string): Promise<Account> {
    const user = await this.accounts.find(id);
    if (!user) throw new ProblemException(problems.notFound);
    return user;
  }

  async list(page: PageRequest, email?: string): Promise<Page<User>> {
    return findPage(this.users, page, { email });
  }

  /**
   * Idempotent: what changes nothing leaves no audit event. When a call that disables the user has returned, no verifier
   * accepts their tokens.
   * @param endSessions ends the sessions of a user who is being disabled, and returns their number
   * @throws {ProblemException} not_found
   */
  async setActive(
    id: string,
    isActive: boolean,
    actor: Actor,
    endSessions: (transaction: EntityManager, userId: string) => Promise<number>,
  ): Promise<User> {
    const act = () => this.commitActive(id, isActive, actor, endSessions);
    return isActive ? act() : this.propagation.propagateAfter(act);
  }

  private async commitActive(
    id: string,
    isActive: boolean,
    actor: Actor,
    endSessions: (transaction: EntityManager, userId: string) => Promise<number>,
  ): Promise<User> {
    return this.users.manager.transaction(async (transaction) => {
      const before = await this.lock(transaction, id);
      const updatedAt = this.clock.now();
      const userId = before.id;
      const endedSessions = isActive ? 0 : await endSessions(transaction, userId);
      const reason = isActive ? 'enabled' : 'disabled';
      const logFields = { user_id: userId, reason, count: endedSessions };
      if (before.isActive === isActive && endedSessions === 0) {
        this.audit.logOnly('admin.user.updated', actor, logFields);
        return before;
      }
      await transaction.update(User, { id: userId }, { isActive, updatedAt });
      await this.audit.record(transaction, {
        event: 'admin.user.updated',
        actor,
        time: updatedAt,
        subject: userId,
        details: {
          before: { is_active: before.isActive },
          after: { is_active: isActive },
          ended_sessions: endedSessions,
        },
        logFields,
      });
      return { ...before, isActive, updatedAt };
    });
  }

  /**
   * Deletes the account. Its sessions are deleted by the foreign key. When it has returned, no verifier accepts a token of
   * the user.
   * @throws {ProblemException} not_found
   */
  async delete(id: string, actor: Actor): Promise<void> {
    await this.propagation.propagateAfter(() => this.commitDeletion(id, actor));
  }

  private async commitDeletion(id: string, actor: Actor): Promise<void> {
    await this.users.manager.transaction(async (transaction) => {
      const { id: userId, isActive } = await this.lock(transaction, id);
      await transaction.delete(User, { id: userId });
      await this.audit.record(transaction, {
        event: 'admin.user.deleted',
        actor,
        time: this.clock.now(),
        subject: userId,
        details: { before: { is_active: isActive } },
        logFields: { user_id: userId },
      });
    });
  }

  private async lock(transaction: EntityManager, id: string): Promise<User> {
    const lock = { mode: 'pessimistic_write' } as const;
    const user = isId(id) ? await transaction.findOne(User, { where: { id }, lock }) : null;
    if (!user) throw new ProblemException(problems.notFound);
    return user;
  }
}
