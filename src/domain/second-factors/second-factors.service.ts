/**
 * Second factors: authenticator apps (TOTP) with recovery codes, and passkeys, which also log in alone. A proof (a
 * code, an answer of a passkey) is verified first; `UseProof` consumes it, once, in the transaction of the action that it
 * authorises, and `answerRefusals` answers a refused one. Transactions lock the row of the user, then the challenge,
 * then the factor. Changes of factors need the password (factor-changes.ts). This file: a user's factors, refusals of
 * proofs, and why a login would be refused.
 */
import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { Actor } from '../../foundation/access/actor.js';
import { CountedRefusals } from '../audit/counted-refusals.js';
import { isId } from '../../foundation/common/ids.js';
import type { SecondFactorMethod } from '../../foundation/common/names.js';
import { toNetwork } from '../../foundation/common/network.js';
import type { RefusalReason } from '../../foundation/common/security-events.js';
import { Environment, isSecondFactorRequired } from '../../foundation/config/environment.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { Database, type Statement } from '../../foundation/database/database.js';
import { NO_PASSWORD } from '../passwords/password-hasher.js';
import { ACCOUNT_STATE, type AccountState } from '../passwords/password-verifier.js';
import { UsersService } from '../users/users.service.js';
import { buildKnownPasskeys } from '../webauthn/passkey-rows.js';
import type { KnownPasskey } from '../webauthn/relying-party.js';
import { ProblemException, problems, type Problem } from '../../foundation/problems/problems.js';
import { LoginThrottle, CodeThrottle } from '../../foundation/throttling/guess-throttles.js';
import type { RateLimitBucket } from '../../foundation/throttling/rate-limit-buckets.js';

const READ_USER: Statement = {
  name: 'second_factors_read',
  text: `SELECT ${ACCOUNT_STATE}, password_hash = '${NO_PASSWORD}' AS "hasNoPassword",
           encode(sha256(convert_to(password_hash, 'UTF8')), 'hex') AS "passwordHashDigest",
           encrypted_secret AS "encryptedSecret", totp_factors.created_at AS "enrolledAt",
           confirmed_at AS "confirmedAt",
           (SELECT count(*)::integer FROM recovery_codes WHERE user_id = users.id) AS "recoveryCodes",
           ${buildKnownPasskeys('passkeys', 'user_id = users.id')} AS passkeys
         FROM users LEFT JOIN totp_factors ON totp_factors.user_id = users.id WHERE users.id = $1`,
};

export interface UserWithFactors extends AccountState {
  readonly hasNoPassword: boolean;
  readonly passwordHashDigest: string;
  readonly encryptedSecret: Buffer | null;
  /** When the enrolment of the app began; null without an app. */
  readonly enrolledAt: Date | null;
  /** Null while the enrolment is not confirmed, when logins do not ask for codes yet. */
  readonly confirmedAt: Date | null;
  readonly recoveryCodes: number;
  readonly passkeys: readonly KnownPasskey[];
}

/**
 * Lists all factors of a user. {@link SecondFactorsService.listMethods} excludes those that a login does not accept.
 */
function listFactors({ confirmedAt, recoveryCodes, passkeys }: UserWithFactors): SecondFactorMethod[] {
  return [
    ...(confirmedAt ? (['totp'] as const) : []),
    ...(confirmedAt && recoveryCodes > 0 ? (['recovery_code'] as const) : []),
    ...(passkeys.length > 0 ? (['passkey'] as const) : []),
  ];
}

/** With REQUIRE_VERIFIED_EMAIL, an account must prove its address before it logs in. */
export function isVerificationMissing(
  { requireVerifiedEmail }: Environment,
  { emailVerifiedAt }: AccountState,
): boolean {
  return requireVerifiedEmail && emailVerifiedAt === null;
}

const REFUSAL_EVENT = 'user.second_factor.failed';
type FactorReason = RefusalReason<typeof REFUSAL_EVENT>;

/**
 * Consumes a proof in the transaction of the action that it authorises.
 * @throws {RefusedProofError} when another call has consumed it
 */
export type UseProof = (transaction: EntityManager) => Promise<void>;

/** A refused proof, which rolls back its action; {@link SecondFactorsService.answerRefusals} answers it. */
export class RefusedProofError extends Error {
  override readonly name: string = 'RefusedProofError';

  /** @param userId undefined until a challenge is verified, because a client could name any user */
  constructor(
    readonly reason: FactorReason,
    readonly userId?: string,
  ) {
    super(reason);
  }
}

function toFactorRefusal(reason: FactorReason, userId?: string) {
  return { event: REFUSAL_EVENT, reason, fields: { user_id: userId } } as const;
}

@Injectable()
export class SecondFactorsService {
  constructor(
    private readonly database: Database,
    private readonly refusals: CountedRefusals,
    private readonly environment: Environment,
  ) {}

  /**
   * Runs an action that a proof authorises. A refused proof is counted in the audit log, and answered with this problem.
   */
  async answerRefusals<Result>(problem: Problem, actor: Actor, action: () => Promise<Result>): Promise<Result> {
    return action().catch(async (error: unknown) => {
      if (!(error instanceof RefusedProofError)) throw error;
      const { reason, userId } = error;
      const answer = reason === 'email_not_verified' ? problems.emailNotVerified : problem;
      const counted = { counted: userId ?? toNetwork(actor.address), subject: userId };
      throw await this.refusals.recordRefusal(
        { problem: answer, refusal: toFactorRefusal(reason, userId), ...counted },
        actor,
      );
    });
  }

  /** @throws {ProblemException} not_found */
  async findUser(userId: string): Promise<UserWithFactors> {
    const user = await this.readUser(userId);
    if (!user) throw new ProblemException(problems.notFound);
    return user;
  }

  async readUser(userId: string): Promise<UserWithFactors | undefined> {
    return this.database.row<UserWithFactors>(READ_USER, [userId]);
  }

  /** Without WEBAUTHN_RP_ID, a user whose only factors are passkeys has no method and cannot log in (fail closed). */
  listMethods(user: UserWithFactors): SecondFactorMethod[] {
    return listFactors(user).filter((method) => method !== 'passkey' || this.environment.webauthnRpId !== undefined);
  }
}

export const LOGIN_REASON_CODES = [
  'unknown',
  'disabled',
  'no_password',
  'email_not_verified',
  'throttled',
  'second_factor_throttled',
  'second_factor_unusable',
  'second_factor_missing',
] as const;

/** A reason to refuse a login with the right password. Only operators see it. */
export interface LoginReason {
  readonly code: (typeof LOGIN_REASON_CODES)[number];
  readonly detail: string;
  /** When the reason ends by itself; null when an operator or the user has to act. */
  readonly until: Date | null;
  /** Only clients at this address are refused; null for clients at any. */
  readonly address: string | null;
}

export interface LoginExplanation {
  readonly isAccepted: boolean;
  readonly emailVerifiedAt: Date | null;
  readonly factors: readonly SecondFactorMethod[];
  readonly methods: readonly SecondFactorMethod[];
  readonly reasons: readonly LoginReason[];
}

const LASTING_REASONS = {
  unknown: 'No account has this id.',
  disabled: 'The account is disabled.',
  no_password:
    'The account was imported without a password. The person sets one with the link "forgot password", or with the ' +
    'token of `platform-auth users reset-password`.',
  email_not_verified: 'The service demands a verified address (REQUIRE_VERIFIED_EMAIL), and this one is not.',
  second_factor_unusable: 'The only second factors are passkeys, and the service accepts none without WEBAUTHN_RP_ID.',
  second_factor_missing:
    'The service demands a second factor (SECOND_FACTOR_REQUIRED), and the account has none: its login continues with ' +
    'the enrolment of an authenticator app.',
} as const;
/** Of a user whose password many addresses guess, the latest ones are looked at. */
const MAX_ADDRESSES = 100;
const LIMITED_BY: Readonly<Partial<Record<RateLimitBucket['name'], string>>> = {
  'login-account-address': 'for this account from this address',
  'login-account': 'for this account, from addresses where it did not log in lately',
  'login-address': 'from this address, for all accounts',
};

/**
 * Explains to operators why a login would be refused now, which the login itself hides (enumeration). Counts nothing.
 */
@Injectable()
export class LoginExplanations {
  constructor(
    private readonly secondFactors: SecondFactorsService,
    private readonly users: UsersService,
    private readonly logins: LoginThrottle,
    private readonly codes: CodeThrottle,
    private readonly environment: Environment,
    private readonly clock: ComparedClock,
  ) {}

  /**
   * @param address address of the client that would log in; null for each address from which wrong passwords or codes
   * came lately
   */
  async explainLogin(userId: string, address: string | null): Promise<LoginExplanation> {
    const user = isId(userId) ? await this.secondFactors.readUser(userId) : undefined;
    const unknown = { isAccepted: false, emailVerifiedAt: null, factors: [], methods: [] };
    if (!user) return { ...unknown, reasons: [toLastingReason('unknown')] };
    const { emailVerifiedAt } = user;
    const factors = listFactors(user);
    const methods = this.secondFactors.listMethods(user);
    const isFactorMissing = factors.length === 0 && isSecondFactorRequired(this.environment, this.clock.now());
    const reasons = [
      ...(user.isActive ? [] : [toLastingReason('disabled')]),
      ...(user.hasNoPassword ? [toLastingReason('no_password')] : []),
      ...(isVerificationMissing(this.environment, user) ? [toLastingReason('email_not_verified')] : []),
      ...(factors.length > 0 && methods.length === 0 ? [toLastingReason('second_factor_unusable')] : []),
      ...(isFactorMissing ? [toLastingReason('second_factor_missing')] : []),
      ...(await this.listThrottles(user, address)),
    ];
    const throttled = await this.listThrottledMethods(user.id, methods);
    const hasOpenMethod = methods.length === 0 || throttled.length < methods.length;
    const isAccepted = reasons.length === 0 && hasOpenMethod;
    return { isAccepted, emailVerifiedAt, factors, methods, reasons: [...reasons, ...throttled] };
  }

  private async listThrottles(user: UserWithFactors, asked: string | null): Promise<LoginReason[]> {
    const latest = asked === null ? await this.users.listGuessAddresses(user) : [asked];
    const addresses = asked === null ? [null, ...latest.slice(0, MAX_ADDRESSES)] : latest;
    const exhausted = await this.logins.listExhaustedLoginLimits(user.email, addresses);
    return exhausted.map(({ name, until, address }) => {
      const limited = LIMITED_BY[name] ?? '';
      const detail = `Too many wrong passwords ${limited}: until then the right one is answered with 429, too.`;
      return { code: 'throttled', detail, until, address };
    });
  }

  private async listThrottledMethods(userId: string, methods: readonly SecondFactorMethod[]): Promise<LoginReason[]> {
    const reasons: LoginReason[] = [];
    for (const method of methods) {
      if (method === 'passkey') continue;
      const ends = (await this.codes.listExhaustedCodeLimits(userId, method)).map(({ until }) => until.getTime());
      if (ends.length === 0) continue;
      const detail = `Too many wrong codes: until then ${method} is answered with 429, also with a right code.`;
      reasons.push({ code: 'second_factor_throttled', detail, until: new Date(Math.max(...ends)), address: null });
    }
    return reasons;
  }
}

function toLastingReason(code: keyof typeof LASTING_REASONS): LoginReason {
  return { code, detail: LASTING_REASONS[code], until: null, address: null };
}
