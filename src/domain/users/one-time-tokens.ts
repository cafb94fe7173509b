/**
 * One-time tokens: the secret in a link by e-mail, or one that an operator hands over to reset a password. Invariants:
 * 256 random bits, stored as a digest; valid once, for 30 minutes (an invitation: 7 days) by the clock of PostgreSQL; one for each user and
 * purpose. A trigger deletes them when `password_changed_at` changes or the user is disabled. Transactions lock the row
 * of the user before tokens and mail requests, against deadlocks.
 */
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import type { Actor } from '../../foundation/access/actor.js';
import { toUserEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { isId } from '../../foundation/common/ids.js';
import type { RefusalReason } from '../../foundation/common/security-events.js';
import { DEVELOPMENT_MAIL } from '../../foundation/config/account-variables.js';
import { Environment } from '../../foundation/config/environment.js';
import { computeDigest, generateSecret, type SecretDigest } from '../../foundation/crypto/secret.js';
import { Database } from '../../foundation/database/database.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { User } from './user.entity.js';

export const TOKEN_TTL_MINUTES = 30;
export const INVITATION_TTL_DAYS = 7;
const MINUTES_PER_DAY = 1_440;

/**
 * Secret scanners find the prefixes, and a page tells by them the purpose of a link. An operator's token has its own
 * purpose, because an anonymous client that asks for a link replaces the token of `password_reset`.
 */
const PREFIXES = {
  password_reset: 'pa_reset_',
  operator_password_reset: 'pa_reset_',
  account_invitation: 'pa_reset_',
  email_verification: 'pa_email_',
  email_change: 'pa_change_',
} as const;
const FORMAT = /^pa_(reset|email|change)_[\w-]{43}$/;
type TokenPurpose = keyof typeof PREFIXES;

export const RESET_PURPOSES = [
  'password_reset',
  'operator_password_reset',
  'account_invitation',
] as const satisfies TokenPurpose[];
export const EMAIL_PURPOSES = ['email_verification', 'email_change'] as const satisfies TokenPurpose[];

const ISSUE = `INSERT INTO one_time_tokens (user_id, purpose, digest, email, expires_at)
  VALUES ($1, $2, $3, $4, now() + $5 * interval '1 minute')
  ON CONFLICT (user_id, purpose) DO UPDATE
  SET digest = excluded.digest, email = excluded.email, expires_at = excluded.expires_at
  RETURNING expires_at AS "expiresAt"`;
/**
 * The account was disabled, or got another address, since the token was sent. A token of `email_change` was sent to the
 * new address, so its address differs by intent.
 */
const IS_VOID = `(NOT users.is_active OR (tokens.purpose <> 'email_change' AND tokens.email <> users.email))`;
const FIND = {
  name: 'one_time_tokens_find',
  text: `SELECT tokens.user_id AS "userId", tokens.purpose, tokens.email, users.email AS "accountEmail",
           tokens.expires_at <= now() AS "isExpired", COALESCE(${IS_VOID}, false) AS "isVoid"
         FROM one_time_tokens AS tokens JOIN users ON users.id = tokens.user_id
         WHERE tokens.digest = $1 AND tokens.purpose = ANY ($2)`,
};
const USE = `DELETE FROM one_time_tokens AS tokens USING users
  WHERE users.id = tokens.user_id AND tokens.user_id = $1 AND tokens.digest = $2
    AND tokens.expires_at > now() AND ${IS_VOID} IS NOT TRUE`;
const VOID_TOKENS = 'DELETE FROM one_time_tokens WHERE user_id = $1';
const VOID_TOKEN = 'DELETE FROM one_time_tokens WHERE user_id = $1 AND purpose = $2';

interface FoundToken {
  readonly userId: string;
  readonly purpose: TokenPurpose;
  /** Address to which the token was sent; null when an operator handed it over. */
  readonly email: string | null;
  readonly accountEmail: string;
  readonly digest: SecretDigest;
}

/** Browsers do not send the fragment, so neither an access log nor a Referer has the token (RFC 9110 §10.1.3). */
export function buildLink(page: string, token: string): string {
  return `${page}#token=${token}`;
}

type LinkAction = (transaction: EntityManager, user: User) => Promise<void>;

interface IssuedToken {
  /** The only occurrence of the token in plain text. */
  readonly token: string;
  readonly expiresAt: Date;
}

export interface IssuedLink extends IssuedToken {
  /** Undefined unless the operator has set PASSWORD_RESET_URL. */
  readonly link: string | undefined;
}

@Injectable()
export class OneTimeTokens {
  constructor(
    private readonly dataSource: DataSource,
    private readonly database: Database,
    private readonly audit: AuditLog,
    private readonly environment: Environment,
  ) {}

  /**
   * Issues a token, which replaces the user's previous one for this purpose. The caller holds a lock of the user's row.
   * @param email the address to which it is sent; null: an operator hands it over
   */
  async issueToken(
    transaction: EntityManager,
    userId: string,
    purpose: TokenPurpose,
    email: string | null,
  ): Promise<IssuedToken> {
    const token = generateSecret(PREFIXES[purpose]);
    const minutes = purpose === 'account_invitation' ? INVITATION_TTL_DAYS * MINUTES_PER_DAY : TOKEN_TTL_MINUTES;
    const values = [userId, purpose, computeDigest(token), email, minutes];
    const [row] = await transaction.query<{ expiresAt: Date }[]>(ISSUE, values);
    if (!row) throw new Error('PostgreSQL returned no token');
    return { token, expiresAt: row.expiresAt };
  }

  async issueTokenForOperator(userId: string, actor: Actor): Promise<IssuedLink> {
    return this.dataSource.transaction(async (transaction) => {
      const lock = { mode: 'pessimistic_read' } as const;
      const user = isId(userId) ? await transaction.findOne(User, { where: { id: userId }, lock }) : null;
      if (!user) throw new ProblemException(problems.notFound);
      // The lock prevents another transaction from disabling the user before the token is committed.
      if (!user.isActive) throw new ProblemException(problems.userDisabled);
      const issued = await this.issueLink(transaction, user.id, 'operator_password_reset');
      const details = { expires_at: issued.expiresAt.toISOString() };
      const event = toUserEvent('admin.user.password_reset_issued', actor, user.id, { details });
      await this.audit.record(transaction, event);
      return issued;
    });
  }

  /** Issues a token that an operator hands over. The caller holds a lock of the user's row. */
  async issueLink(
    transaction: EntityManager,
    userId: string,
    purpose: 'operator_password_reset' | 'account_invitation',
  ): Promise<IssuedLink> {
    const issued = await this.issueToken(transaction, userId, purpose, null);
    const { passwordResetUrl: page } = this.environment;
    const hasPage = page !== undefined && page !== DEVELOPMENT_MAIL.PASSWORD_RESET_URL;
    return { ...issued, link: hasPage ? buildLink(page, issued.token) : undefined };
  }

  /** Refuses text in another format. No call can have used such text, so this refusal need not wait for one. */
  refuseUnreadable(token: string): void {
    if (!FORMAT.test(token)) throw createLinkRefusal('unknown');
  }

  async findToken(token: string, purposes: readonly TokenPurpose[]): Promise<FoundToken> {
    const digest = computeDigest(token);
    type FoundRow = FoundToken & { readonly isExpired: boolean; readonly isVoid: boolean };
    const found = await this.database.row<FoundRow>(FIND, [digest, purposes]);
    if (!found) throw createLinkRefusal('unknown');
    if (found.isExpired) throw createLinkRefusal('expired', found.userId);
    if (found.isVoid) throw createLinkRefusal('void', found.userId);
    const { userId, purpose, email, accountEmail } = found;
    return { userId, purpose, email, accountEmail, digest };
  }

  /**
   * Consumes the token in the transaction of the action, so that only one of several concurrent calls succeeds.
   * @param action gets the user, whose row is locked
   */
  async useToken({ userId, digest }: FoundToken, action: LinkAction): Promise<void> {
    await this.dataSource.transaction(async (transaction) => {
      const lock = { mode: 'pessimistic_write' } as const;
      const user = await transaction.findOne(User, { where: { id: userId }, lock });
      const [, used] = await transaction.query<[unknown, number]>(USE, [userId, digest]);
      if (!user || used === 0) throw createLinkRefusal('unknown', userId);
      await action(transaction, user);
    });
  }

  async voidTokens(transaction: EntityManager, userId: string): Promise<void> {
    await transaction.query(VOID_TOKENS, [userId]);
  }

  async voidToken(transaction: EntityManager, userId: string, purpose: TokenPurpose): Promise<void> {
    await transaction.query(VOID_TOKEN, [userId, purpose]);
  }
}

function createLinkRefusal(reason: RefusalReason<'user.link.refused'>, userId?: string): ProblemException {
  const refusal = { event: 'user.link.refused', reason, fields: { user_id: userId } } as const;
  return new ProblemException(problems.invalidLink, { refusal });
}
