/**
 * Users: e-mail address, password hash, active or disabled. How they register is in registration.ts, what they change about
 * their own account in account/, their sessions in tokens/. Invariants: e-mail addresses are canonical before they arrive
 * here, and each change commits together with its audit event.
 */
import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import {
  Check,
  Column,
  Entity,
  Index,
  IsNull,
  MoreThanOrEqual,
  PrimaryColumn,
  Unique,
  type EntityManager,
  type Repository,
} from 'typeorm';
import type { Actor } from '../access/actor.js';
import { toUserEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { FAILED_ATTEMPTS } from '../audit/counted-refusals.js';
import { addSeconds, Clock } from '../common/clock.js';
import { isId } from '../common/ids.js';
import { Database, ANY_GIVEN_ID, RowsById } from '../database/database.js';
import { findPage, toFilter, toPattern, type Filter, type Page, type PageRequest } from '../http/page.js';
import { Propagation } from '../revocation/propagation.js';
import type { PasswordHash } from '../passwords/password-hasher.js';
import { ProblemException, problems } from '../problems/problems.js';
import { LoginThrottle } from '../throttling/guess-throttles.js';
import { LONGEST_WINDOW_SECONDS } from '../throttling/policies.js';

@Entity('users')
@Check('users_email_canonical_check', 'email = lower(email)')
@Unique('users_email_key', ['email'])
@Index('users_email_search_idx', { synchronize: false })
@Index('users_created_at_idx', ['createdAt'])
@Index('users_disabled_idx', ['id'], { where: 'NOT is_active' })
@Index('users_unverified_idx', ['id'], { where: 'email_verified_at IS NULL' })
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

export interface UserFilter {
  readonly email: string | undefined;
  /** A part of the address, in any case. */
  readonly search: string | undefined;
  readonly isDisabled: boolean;
  readonly isUnverified: boolean;
  readonly hasNoFactor: boolean;
  readonly isThrottled: boolean;
  readonly createdSince: Date | undefined;
}

const HAS_NO_FACTOR = `NOT EXISTS (SELECT FROM totp_factors WHERE user_id = "User".id AND confirmed_at IS NOT NULL)
  AND NOT EXISTS (SELECT FROM passkeys WHERE user_id = "User".id)`;
const READ_FAILURES = {
  name: 'users_read_failures',
  text: `SELECT DISTINCT subject AS id, address FROM (${FAILED_ATTEMPTS}) AS failed
         WHERE time >= $2 AND subject = ANY ($1) AND address IS NOT NULL`,
};

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
    private readonly throttle: LoginThrottle,
  ) {}

  /** @throws {ProblemException} not_found, also for an id that is not a valid UUID */
  async findUser(id: string): Promise<Account> {
    const user = await this.accounts.find(id);
    if (!user) throw new ProblemException(problems.notFound);
    return user;
  }

  /** With `isThrottled`, a page may hold fewer users than its limit although there are more pages. */
  async listUsers(page: PageRequest, filter: UserFilter): Promise<Page<User>> {
    const { email, createdSince, search } = filter;
    const conditions = {
      email,
      createdAt: createdSince && MoreThanOrEqual(createdSince),
      ...(filter.isDisabled && { isActive: false }),
      ...(filter.isUnverified && { emailVerifiedAt: IsNull() }),
    };
    const filters: Filter[] = [];
    if (search !== undefined) filters.push(toFilter('email LIKE :search', { search: toPattern(search.toLowerCase()) }));
    if (filter.hasNoFactor) filters.push(toFilter(HAS_NO_FACTOR));
    if (!filter.isThrottled) return findPage(this.users, page, conditions, filters);
    const failedSince = addSeconds(this.clock.now(), -LONGEST_WINDOW_SECONDS);
    const failed = `id IN (SELECT CASE WHEN subject NOT LIKE 'unknown:%' THEN subject::uuid END
      FROM (${FAILED_ATTEMPTS}) AS failed WHERE time >= :failedSince)`;
    const found = await findPage(this.users, page, conditions, [...filters, toFilter(failed, { failedSince })]);
    return { ...found, items: await this.keepThrottled(found.items, failedSince) };
  }

  /** The windows are keyed by an HMAC of the account and network, so the audit log tells which ones to look at. */
  private async keepThrottled(users: User[], failedSince: Date): Promise<User[]> {
    const ids = users.map(({ id }) => id);
    const rows = await this.database.rows<{ id: string; address: string }>(READ_FAILURES, [ids, failedSince]);
    const guesses = users.map(({ id, email }) => {
      const addresses = rows.filter((row) => row.id === id).map(({ address }) => address);
      return { userId: id, account: email, addresses };
    });
    const throttled = await this.throttle.findThrottledUsers(guesses);
    return users.filter(({ id }) => throttled.has(id));
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
