/**
 * Users: reading, searching and unlocking accounts. registration.ts registers and user-changes.ts changes them,
 * api/account/ has what users change about their own account, and tokens/ their sessions. Invariants: e-mail addresses
 * arrive here in canonical form, and each change commits together with its audit event.
 */
import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { IsNull, MoreThanOrEqual, type Repository } from 'typeorm';
import type { Actor } from '../../foundation/access/actor.js';
import { toUserEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { selectFailedAttempts, WINDOW_MS } from '../audit/counted-refusals.js';
import { addSeconds } from '../../foundation/common/clock.js';
import { translateViolation } from '../../foundation/database/database-failure.js';
import { Environment } from '../../foundation/config/environment.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { Database, ANY_GIVEN_ID, RowsById } from '../../foundation/database/database.js';
import { buildHasSecondFactor } from '../passwords/password-verifier.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { LoginThrottle, type GuessedUser } from '../../foundation/throttling/guess-throttles.js';
import { LONGEST_WINDOW_SECONDS } from '../../foundation/throttling/rate-limit-buckets.js';
import { User } from './user.entity.js';
import {
  findPage,
  toFilter,
  toPattern,
  type Filter,
  type Page,
  type PageRequest,
} from '../../foundation/database/page.js';

const READ = {
  name: 'users_read',
  text: `SELECT id, email, is_active AS "isActive", email_verified_at AS "emailVerifiedAt",
           created_at AS "createdAt", updated_at AS "updatedAt" FROM users WHERE id = ${ANY_GIVEN_ID}`,
};

/** @throws {ProblemException} email_taken when the work gives an account the address of another one */
export async function translateTakenEmail<Result>(work: Promise<Result>): Promise<Result> {
  return translateViolation(work, 'users_email_key', () => new ProblemException(problems.emailTaken));
}

export type Account = Omit<User, 'passwordHash' | 'passwordChangedAt' | 'factorsChangedAt'>;

export interface UserFilter {
  readonly email: string | undefined;
  /** A part of the address, case-insensitive. */
  readonly search: string | undefined;
  readonly isDisabled: boolean;
  readonly isUnverified: boolean;
  readonly hasNoFactor: boolean;
  readonly isThrottled: boolean;
  readonly createdSince: Date | undefined;
}

const READ_FAILURES = {
  name: 'users_read_failures',
  text: `SELECT subject AS id, address FROM (${selectFailedAttempts('$2', '$3')}) AS failed
           CROSS JOIN jsonb_array_elements_text(addresses) AS address
         WHERE subject = ANY ($1) GROUP BY subject, address ORDER BY max(time) DESC`,
};

/** Wrong passwords and codes from before these moments no longer refuse anything. */
interface FirstCounted {
  readonly passwords: Date;
  readonly codes: Date;
}

@Injectable()
export class UsersService {
  private readonly accounts = new RowsById<Account>((ids) => this.database.rows(READ, [ids]));

  constructor(
    @InjectRepository(User) private readonly users: Repository<User>,
    private readonly database: Database,
    private readonly audit: AuditLog,
    private readonly clock: ComparedClock,
    private readonly throttle: LoginThrottle,
    private readonly environment: Environment,
  ) {}

  /** @throws {ProblemException} not_found, also for an id that is not a valid UUID */
  async findUser(id: string): Promise<Account> {
    const user = await this.accounts.find(id);
    if (!user) throw new ProblemException(problems.notFound);
    return user;
  }

  /** @returns the users of these ids, without those that do not exist */
  async findUsers(ids: readonly string[]): Promise<Account[]> {
    const found = await Promise.all(ids.map((id) => this.accounts.find(id)));
    return found.filter((user) => user !== undefined);
  }

  /** With `isThrottled`, a page may contain fewer users than its limit although it is not the last one. */
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
    if (filter.hasNoFactor) filters.push(toFilter(`NOT (${buildHasSecondFactor('"User".id')})`));
    if (!filter.isThrottled) return findPage(this.users, page, conditions, filters);
    const since = this.findFirstCounted();
    const failed = `id = ANY (ARRAY(SELECT CASE WHEN subject NOT LIKE 'unknown:%' THEN subject::uuid END
      FROM (${selectFailedAttempts(':passwords', ':codes')}) AS failed))`;
    const found = await findPage(this.users, page, conditions, [...filters, toFilter(failed, { ...since })]);
    return { ...found, items: await this.keepThrottled(found.items, since) };
  }

  /** Lists addresses of wrong passwords and codes of a user, as far back as a throttle lasts, the latest ones first. */
  async listGuessAddresses(user: Pick<User, 'id' | 'email'>): Promise<readonly string[]> {
    return (await this.findGuessesOf(user)).addresses;
  }

  /** Removes the throttles of the user's logins, codes, invitations and mails. */
  async unlockUser(id: string, actor: Actor): Promise<void> {
    const account = await this.findUser(id);
    const guessed = await this.findGuessesOf(account);
    await this.users.manager.transaction(async (transaction) => {
      const count = await this.throttle.removeThrottles(transaction, guessed);
      const event = toUserEvent('admin.user.throttles_removed', actor, account.id, { count, logFields: { count } });
      await this.audit.record(transaction, event, count > 0);
    });
    await this.throttle.awaitRemoval();
  }

  private async keepThrottled(users: User[], since: FirstCounted): Promise<User[]> {
    const throttled = await this.throttle.findThrottledUsers(await this.findGuesses(users, since));
    return users.filter(({ id }) => throttled.has(id));
  }

  /** Finds the addresses in the audit log, because windows are keyed by an HMAC of account and network. */
  private async findGuesses(users: readonly Pick<User, 'id' | 'email'>[], since: FirstCounted): Promise<GuessedUser[]> {
    const ids = users.map(({ id }) => id);
    const rows = await this.readFailures(ids, since);
    return users.map(({ id, email }) => {
      const addresses = rows.filter((row) => row.id === id).map(({ address }) => address);
      return { userId: id, account: email, addresses };
    });
  }

  private async findGuessesOf({ id, email }: Pick<User, 'id' | 'email'>): Promise<GuessedUser> {
    const rows = await this.readFailures([id], this.findFirstCounted());
    return { userId: id, account: email, addresses: rows.map(({ address }) => address) };
  }

  private readFailures(ids: readonly string[], { passwords, codes }: FirstCounted) {
    return this.database.rows<{ id: string; address: string }>(READ_FAILURES, [ids, passwords, codes]);
  }

  private findFirstCounted(): FirstCounted {
    const { loginLimitPerAccount, loginLimitPerAccountAndAddress } = this.environment;
    const longest = Math.max(loginLimitPerAccount.seconds, loginLimitPerAccountAndAddress.seconds);
    const now = this.clock.now();
    return {
      passwords: addSeconds(now, -longest - WINDOW_MS / 1_000),
      codes: addSeconds(now, -LONGEST_WINDOW_SECONDS - WINDOW_MS / 1_000),
    };
  }
}
