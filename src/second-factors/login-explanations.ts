import { Injectable } from '@nestjs/common';
import { isId } from '../common/ids.js';
import type { SecondFactorMethod } from '../common/names.js';
import { Environment } from '../config/environment.js';
import { LoginThrottle, SecondFactorThrottle } from '../throttling/guess-throttles.js';
import { listFactors, SecondFactorsService, type UserWithFactors } from './second-factors.service.js';

export const LOGIN_REASON_CODES = [
  'unknown',
  'disabled',
  'email_not_verified',
  'throttled',
  'second_factor_throttled',
  'second_factor_unusable',
] as const;

/** One reason to refuse a login with the right password, for operators only. */
export interface LoginReason {
  readonly code: (typeof LOGIN_REASON_CODES)[number];
  readonly detail: string;
  /** When it ends by itself; null when it does not. */
  readonly until: Date | null;
}

export interface LoginExplanation {
  readonly isAccepted: boolean;
  readonly emailVerifiedAt: Date | null;
  /** What the user has. */
  readonly factors: readonly SecondFactorMethod[];
  /** What a login asks for after the right password; empty when the password is enough. */
  readonly methods: readonly SecondFactorMethod[];
  readonly reasons: readonly LoginReason[];
}

const UNKNOWN: LoginReason = { code: 'unknown', detail: 'No account has this id.', until: null };
const DISABLED: LoginReason = { code: 'disabled', detail: 'The account is disabled.', until: null };
const NOT_VERIFIED: LoginReason = {
  code: 'email_not_verified',
  detail: 'The service demands a verified address (REQUIRE_VERIFIED_EMAIL), and this one is not.',
  until: null,
};
const UNUSABLE: LoginReason = {
  code: 'second_factor_unusable',
  detail: 'The only second factors are passkeys, and the service accepts none without WEBAUTHN_RP_ID.',
  until: null,
};
const LIMITED_BY: Readonly<Record<string, string>> = {
  'login-account-address': 'for this account from this address',
  'login-account': 'for this account, from addresses where it did not log in lately',
  'login-address': 'from this address, for all accounts',
};

/** Why a login would be refused now, which the login hides from callers (enumeration). Counts nothing. */
@Injectable()
export class LoginExplanations {
  constructor(
    private readonly secondFactors: SecondFactorsService,
    private readonly logins: LoginThrottle,
    private readonly codes: SecondFactorThrottle,
    private readonly environment: Environment,
  ) {}

  /** @param address of the client that would log in; null: of any */
  async explain(userId: string, address: string | null): Promise<LoginExplanation> {
    const user = isId(userId) ? await this.secondFactors.read(userId) : undefined;
    if (!user) return { isAccepted: false, emailVerifiedAt: null, factors: [], methods: [], reasons: [UNKNOWN] };
    const factors = listFactors(user);
    const methods = this.secondFactors.listMethods(user);
    const reasons = [...this.listLasting(user, methods), ...(await this.listThrottles(user.email, address))];
    const throttled = await this.listThrottledCodes(user.id, methods);
    // A method that is throttled refuses the login when no other one is left.
    const isOpen = methods.length === 0 || throttled.length < methods.length;
    return {
      isAccepted: reasons.length === 0 && isOpen,
      emailVerifiedAt: user.emailVerifiedAt,
      factors,
      methods,
      reasons: [...reasons, ...throttled],
    };
  }

  private listLasting(user: UserWithFactors, methods: readonly SecondFactorMethod[]): LoginReason[] {
    const isUnproven = this.environment.requireVerifiedEmail && user.emailVerifiedAt === null;
    return [
      ...(user.isActive ? [] : [DISABLED]),
      ...(isUnproven ? [NOT_VERIFIED] : []),
      ...(listFactors(user).length > 0 && methods.length === 0 ? [UNUSABLE] : []),
    ];
  }

  private async listThrottles(email: string, address: string | null): Promise<LoginReason[]> {
    const exhausted = await this.logins.listExhaustedLoginLimits(email, address);
    return exhausted.map(({ name, until }) => {
      const detail = `Too many wrong passwords ${LIMITED_BY[name] ?? ''}: until then the right one is answered with 429, too.`;
      return { code: 'throttled', detail, until };
    });
  }

  /** @returns one reason for each method that is answered with 429 */
  private async listThrottledCodes(userId: string, methods: readonly SecondFactorMethod[]): Promise<LoginReason[]> {
    const reasons: LoginReason[] = [];
    for (const method of methods) {
      if (method === 'passkey') continue;
      const ends = (await this.codes.listExhaustedCodeLimits(userId, method)).map(({ until }) => until.getTime());
      if (ends.length === 0) continue;
      const detail = `Too many wrong codes: until then ${method} is answered with 429, also with a right code.`;
      reasons.push({ code: 'second_factor_throttled', detail, until: new Date(Math.max(...ends)) });
    }
    return reasons;
  }
}
