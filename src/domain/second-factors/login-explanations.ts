// Why a login would be refused now. The login itself hides it, so that no client learns which accounts exist.
import { Injectable } from '@nestjs/common';
import { isId } from '../../foundation/common/ids.js';
import type { SecondFactorMethod } from '../../foundation/common/names.js';
import { Environment, isSecondFactorRequired } from '../../foundation/config/environment.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { CodeThrottle, LoginThrottle } from '../../foundation/throttling/guess-throttles.js';
import type { RateLimitBucket } from '../../foundation/throttling/rate-limit-buckets.js';
import { UsersService } from '../users/users.service.js';
import { listFactors, SecondFactorsService, type UserWithFactors } from './second-factors.service.js';

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
    'The account has no password yet: it was invited, or imported without one. The person sets one with the link of the ' +
    'invitation or of "forgot password", or with the token of `platform-auth users reset-password`.',
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
      ...(this.secondFactors.isVerificationMissing(user) ? [toLastingReason('email_not_verified')] : []),
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
