/**
 * Users: e-mail address, password hash, active or disabled. How they register is in registration.ts, what they change about
 * their own account in account/, their sessions in tokens/. Invariants: e-mail addresses are canonical before they arrive
 * here, and each change commits together with its audit event.
 */
import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Check, Column, Entity, PrimaryColumn, Unique, type EntityManager, type Repository } from 'typeorm';
import type { Actor } from '../access/actor.js';
import { toUserEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { Clock } from '../common/clock.js';
import { isId } from '../common/ids.js';
import { Database, ANY_GIVEN_ID, RowsById } from '../database/database.js';
import { findPage, type Page, type PageRequest } from '../http/page.js';
import { Propagation } from '../revocation/propagation.js';
import type { PasswordHash } from '../passwords/password-hasher.js';
import { ProblemException, problems } from '../problems/problems.js';

@Entity('users')
@Check('users_email_canonical_check', 'email = lower(email)')
@Unique('users_email_key', ['email'])
export class User {
  @PrimaryColumn({ type: 'uuid', primaryKeyConstraintName: 'users_pkey' })
  id!: string;

  @Column({ type: 'text' })
  email!: string;

  @Column({ name: 'password_hash', type: 'text' })
  passwordHash!: PasswordHash;

  /** When the password was set, not when it was rehashed. Strictly increasing. Null for imported accounts. */
  @Column({ name: 'password_changed_at', type: 'timestamptz', precision: 3, nullable: true })
  passwordChangedAt!: Date | null;

  @Column({ name: 'is_active', type: 'boolean' })
  isActive!: boolean;

  /** When a link first proved an address of the account; at a change of an unproven one, no later than the oldest factor. */
  @Column({ name: 'email_verified_at', type: 'timestamptz', nullable: true })
  emailVerifiedAt!: Date | null;

  /** When the second factors last changed; identifies their set. Null: the user never had one. */
  @Column({ name: 'factors_changed_at', type: 'timestamptz', precision: 3, nullable: true })
  factorsChangedAt!: Date | null;

  @Column({ name: 'created_at', type: 'timestamptz' })
  createdAt!: Date;

  @Column({ name: 'updated_at', type: 'timestamptz' })
  updatedAt!: Date;
}

const READ = {
  name: 'users_read',
  text: `SELECT id, email, is_active AS "isActive", created_at AS "createdAt", updated_at AS "updatedAt"
         FROM users WHERE id = ${ANY_GIVEN_ID}`,
};

export type Account = Omit<User, 'passwordHash' | 'passwordChangedAt' | 'emailVerifiedAt' | 'factorsChangedAt'>;

interface ActiveChange {
  readonly id: string;
  readonly isActive: boolean;
  readonly actor: Actor;
  /** Ends the sessions of a user who is being disabled. @returns their number */
  readonly endSessions: (transaction: EntityManager, userId: string) => Promise<number>;
}

@Injectable()
export class UsersService {
  private readonly accounts = new RowsById<Account>((ids) => this.database.rows(READ, [ids]));

  constructor(
    @InjectRepository(User) private readonly users: Repository<User>,
    private readonly database: Database,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
    private readonly clock: Clock,
  ) {}

  /** @throws {ProblemException} not_found, also for an id that is not a valid UUID */
  async findUser(id: string): Promise<Account> {
    const user = await this.accounts.find(id);
    if (!user) throw new ProblemException(problems.notFound);
    return user;
  }

  async listUsers(page: PageRequest, email?: string): Promise<Page<User>> {
    return findPage(this.users, page, { email });
  }

  /**
   * Idempotent: what changes nothing leaves no audit event. When a call that disables the user has returned, no verifier
   * accepts their tokens.
   */
  async setUserActive(change: ActiveChange): Promise<User> {
    const commit = () => this.commitActive(change);
    return change.isActive ? commit() : this.propagation.propagateAfter(commit);
  }

  private async commitActive({ id, isActive, actor, endSessions }: ActiveChange): Promise<User> {
    return this.users.manager.transaction(async (transaction) => {
      const before = await lockUser(transaction, id);
      const updatedAt = this.clock.now();
      const userId = before.id;
      const count = isActive ? 0 : await endSessions(transaction, userId);
      const event = toUserEvent('admin.user.updated', actor, userId, {
        time: updatedAt,
        details: { before: { is_active: before.isActive }, after: { is_active: isActive }, ended_sessions: count },
        logFields: { reason: isActive ? 'enabled' : 'disabled', count },
      });
      const hasEffect = before.isActive !== isActive || count > 0;
      if (hasEffect) await transaction.update(User, { id: userId }, { isActive, updatedAt });
      await this.audit.record(transaction, event, hasEffect);
      return hasEffect ? { ...before, isActive, updatedAt } : before;
    });
  }

  /**
   * Deletes the account; the foreign keys delete its sessions. When it has returned, no verifier accepts a token of the user.
   */
  async deleteUser(id: string, actor: Actor): Promise<void> {
    await this.propagation.propagateAfter(() =>
      this.users.manager.transaction(async (transaction) => {
        const { id: userId, isActive } = await lockUser(transaction, id);
        await transaction.delete(User, { id: userId });
        const details = { before: { is_active: isActive } };
        await this.audit.record(transaction, toUserEvent('admin.user.deleted', actor, userId, { details }));
      }),
    );
  }
}

async function lockUser(transaction: EntityManager, id: string): Promise<User> {
  const lock = { mode: 'pessimistic_write' } as const;
  const user = isId(id) ? await transaction.findOne(User, { where: { id }, lock }) : null;
  if (!user) throw new ProblemException(problems.notFound);
  return user;
}
