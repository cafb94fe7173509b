// Limits on guesses at secrets that people choose or type. A guess reserves a point of each bucket and is then
// verified. A wrong guess consumes its points and every other outcome refunds them, so right passwords and codes cost
// nothing. A throttled guess is never verified.

import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { Ticket } from '../common/fair-queue.js';
import { toNetworks } from '../common/network.js';
import { ExhaustedBuckets } from './exhausted-buckets.js';
import { RateLimitBuckets, type RateLimitBucket } from './rate-limit-buckets.js';
import { Throttle } from './throttle.js';
import { listExhausted, ThrottleWindows, type ExhaustedLimit } from './throttle-windows.js';

const LOGIN_EVENT = 'user.login.throttled';
/** How long a guess waits for points that others have reserved and may refund, until it gets a 503. */
const MAX_LOGIN_WAIT_MS = 20_000;
const MAX_CODE_WAIT_MS = 5_000;

interface Guess {
  /** Consumes the points of a wrong guess, and refunds those of a right one. */
  settle(isValid: boolean): Promise<void>;
  /** Refunds the points of a guess that was not verified. If that fails, the reservation expires within a minute. */
  refund(): Promise<void>;
}

interface PasswordGuess extends Guess {
  /** Its place in the queue for hashing. */
  readonly ticket: Ticket;
}

/** A code that a client sent, and the account that its wrong guesses count for. */
export interface CodeGuess {
  /** Id of the user, or a text that identifies one enrolment of an authenticator app. */
  readonly counted: string;
  readonly method: 'totp' | 'recovery_code';
  readonly address: string | null;
}

/** An account, with the addresses from which wrong passwords or codes came. */
export interface GuessedUser {
  readonly userId: string;
  /** Canonical e-mail address. */
  readonly account: string;
  readonly addresses: readonly string[];
}

interface LoginLimit extends ExhaustedLimit {
  /** Of the client; null when it is not the reason. */
  readonly address: string | null;
}

/**
 * Counts wrong passwords per account and network, per account, and per network, alike for accounts that do not exist
 * (enumeration). At a network from which the owner logged in recently, only the first limit refuses, so that an
 * attacker elsewhere does not lock the owner out.
 */
@Injectable()
export class LoginThrottle {
  constructor(
    private readonly buckets: RateLimitBuckets,
    private readonly exhausted: ExhaustedBuckets,
    private readonly windows: ThrottleWindows,
    private readonly throttle: Throttle,
  ) {}

  /**
   * @param account canonical e-mail address
   * @param verify runs only when a guess is left
   * @throws {ProblemException} as {@link reserveGuess}
   */
  async countPasswordGuess<Verdict extends { readonly valid: boolean }>(
    account: string,
    address: string | null,
    verify: (ticket: Ticket) => Promise<Verdict>,
  ): Promise<Verdict> {
    try {
      const guess = await this.reserveGuess(account, address);
      return await settleByVerdict(guess, () => verify(guess.ticket));
    } catch (error) {
      this.throttle.countBusyRefusal(error, address);
      throw error;
    }
  }

  /** @throws {ProblemException} too_many_requests; unavailable without the counters; hashing_busy after a long wait */
  async reserveGuess(account: string, address: string | null): Promise<PasswordGuess> {
    await this.throttle.refuseBusyNetwork(LOGIN_EVENT, address);
    const { exhausted, windows } = this;
    const { networks, buckets, knownKey } = this.toRequest(account, address);
    const ticket = { networks, isKnown: false };
    const request = { buckets, knownKey };
    const reservation = await windows.awaitPoints({ request, ticket, maxWaitMs: MAX_LOGIN_WAIT_MS }, async () => {
      await exhausted.refuseAny(buckets.slice(0, 1));
      // Reads whether the network is known and reserves nothing, so that a flood over its limits writes no row.
      if (exhausted.hasAny(buckets) && !(await windows.reservePoints({ buckets: [], knownKey }, ticket)).isKnown)
        await exhausted.refuseAny(buckets);
    });
    const { isKnown, points } = reservation;
    return {
      ticket: { networks, isKnown },
      // A right password makes the network known to the account.
      settle: (isValid) => windows.settlePoints({ points, isConsumed: !isValid, ...(isValid && { knownKey }) }),
      refund: () => windows.settlePoints({ points, isConsumed: false }).catch(() => undefined),
    };
  }

  /**
   * Reads in one statement which limits refuse a login now, and counts nothing. A limit that refuses at several of the
   * addresses is listed once.
   * @param account canonical e-mail address
   * @param addresses of clients; null lists only the limit of the account at unknown addresses
   */
  async listExhaustedLoginLimits(account: string, addresses: readonly (string | null)[]): Promise<LoginLimit[]> {
    const asked = addresses.map((address) => ({ address, ...this.toRequest(account, address) }));
    const keys = asked.flatMap(({ buckets, knownKey }) => [...buckets.map(({ key }) => key), knownKey]);
    const open = await this.windows.readWindows(keys);
    const found = new Map<string, LoginLimit>();
    for (const { address, buckets, knownKey } of asked) {
      const isKnown = address !== null && open.has(knownKey);
      const ofAddress = address === null ? buckets.filter(({ name }) => name === 'login-account') : buckets;
      for (const limit of listExhausted(ofAddress.slice(0, isKnown ? 1 : undefined), open))
        if (!found.has(limit.key)) found.set(limit.key, { ...limit, address });
    }
    return [...found.values()];
  }

  /** Reads in one statement whose passwords or codes are refused now, and counts nothing. */
  async findThrottledUsers(users: readonly GuessedUser[]): Promise<Set<string>> {
    const limits = users.map((user) => ({ userId: user.userId, buckets: this.createGuessBuckets(user) }));
    const open = await this.windows.readWindows(limits.flatMap((user) => user.buckets.map(({ key }) => key)));
    const throttled = limits.filter((user) => listExhausted(user.buckets, open).length > 0);
    return new Set(throttled.map(({ userId }) => userId));
  }

  /** Removes the throttles of one user: of logins, codes, invitations and mails. @returns the number of windows */
  async removeThrottles(transaction: EntityManager, user: GuessedUser): Promise<number> {
    const mails = this.buckets.createBuckets('mail-account', { account: user.account });
    const invitations = this.buckets.createBuckets('invitation-account', { account: user.userId });
    const keys = [...this.createGuessBuckets(user), ...invitations, ...mails].map(({ key }) => key);
    return this.windows.removeWindows(transaction, keys);
  }

  /** To be called after the commit of {@link removeThrottles}; then every replica accepts guesses again. */
  async awaitRemoval(): Promise<void> {
    await this.windows.awaitRemoval();
  }

  private createGuessBuckets({ userId, account, addresses }: GuessedUser): RateLimitBucket[] {
    const { buckets } = this;
    return [
      ...addresses.flatMap((address) =>
        buckets.createBuckets('login-account-address', { account, networks: toNetworks(address) }),
      ),
      ...buckets.createBuckets('login-account', { account }),
      ...buckets.createBuckets('second-factor-account', { account: userId }),
      ...buckets.createBuckets('second-factor-week', { account: userId }),
    ];
  }

  private toRequest(account: string, address: string | null) {
    const networks = toNetworks(address);
    const buckets = [
      ...this.buckets.createBuckets('login-account-address', { account, networks }),
      ...this.buckets.createBuckets('login-account', { account }),
      ...this.buckets.createBuckets('login-address', { networks }),
    ];
    return { networks, buckets, knownKey: this.buckets.createKey('known-address', networks[0], account) };
  }
}

/**
 * Counts wrong codes of second factors per account alone, because their client has presented the password of the
 * account. Wrong codes of enrolments count per network, and for all networks together, because a code belongs to no
 * account.
 */
@Injectable()
export class CodeThrottle {
  constructor(
    private readonly buckets: RateLimitBuckets,
    private readonly exhausted: ExhaustedBuckets,
    private readonly windows: ThrottleWindows,
  ) {}

  /**
   * @param verify runs only when a guess is left
   * @throws {ProblemException} too_many_requests; unavailable without the counters; hashing_busy after a long wait
   */
  async countCodeGuess<Verdict extends { readonly valid: boolean }>(
    { counted, method, address }: CodeGuess,
    verify: () => Promise<Verdict>,
  ): Promise<Verdict> {
    return this.countGuess(this.createBuckets(counted, method), address, verify);
  }

  /** Counts like {@link countCodeGuess}, and throws the same problems. */
  async countEnrolmentGuess<Verdict extends { readonly valid: boolean }>(
    address: string | null,
    verify: () => Promise<Verdict>,
  ): Promise<Verdict> {
    const ofNetwork = this.buckets.createBuckets('enrolment-address', { networks: toNetworks(address) });
    return this.countGuess([...ofNetwork, ...this.buckets.createBuckets('enrolment', {})], address, verify);
  }

  /** Counts wrong codes of invitations per user and per network, like {@link countCodeGuess}. */
  async countInvitationGuess<Verdict extends { readonly valid: boolean }>(
    userId: string,
    address: string | null,
    verify: () => Promise<Verdict>,
  ): Promise<Verdict> {
    const ofUser = this.buckets.createBuckets('invitation-account', { account: userId });
    const ofNetwork = this.buckets.createBuckets('invitation-address', { networks: toNetworks(address) });
    return this.countGuess([...ofUser, ...ofNetwork], address, verify);
  }

  /** Counts the repeats of one enrolment, each of which rotates a key, like wrong codes of one network. */
  async countEnrolmentRepeat(enrolmentId: string, address: string | null): Promise<void> {
    const buckets = this.buckets.createBuckets('enrolment-address', { account: enrolmentId });
    await this.windows.spendPoints(buckets, { networks: toNetworks(address), isKnown: false });
  }

  /** Reads which limits refuse a code of this method now, and counts nothing. */
  async listExhaustedCodeLimits(userId: string, method: CodeGuess['method']): Promise<ExhaustedLimit[]> {
    const buckets = this.createBuckets(userId, method);
    return listExhausted(buckets, await this.windows.readWindows(buckets.map(({ key }) => key)));
  }

  private async countGuess<Verdict extends { readonly valid: boolean }>(
    buckets: readonly RateLimitBucket[],
    address: string | null,
    verify: () => Promise<Verdict>,
  ): Promise<Verdict> {
    const { exhausted, windows } = this;
    const ticket = { networks: toNetworks(address), isKnown: false };
    const { points } = await windows.awaitPoints({ request: { buckets }, ticket, maxWaitMs: MAX_CODE_WAIT_MS }, () =>
      exhausted.refuseAny(buckets),
    );
    const refund = () => windows.settlePoints({ points, isConsumed: false }).catch(() => undefined);
    // The accepted code is already consumed, so a failed refund must not refuse it.
    const settle = (isValid: boolean) => (isValid ? refund() : windows.settlePoints({ points, isConsumed: true }));
    return settleByVerdict({ settle, refund }, verify);
  }

  private createBuckets(account: string, method: CodeGuess['method']): RateLimitBucket[] {
    // A recovery code has 160 bits and cannot be guessed, so it stays usable while the six digits are locked for the
    // week.
    const weekly = method === 'totp' ? this.buckets.createBuckets('second-factor-week', { account }) : [];
    return [...this.buckets.createBuckets('second-factor-account', { account }), ...weekly];
  }
}

async function settleByVerdict<Verdict extends { readonly valid: boolean }>(
  guess: Guess,
  verify: () => Promise<Verdict>,
): Promise<Verdict> {
  const verdict = await verify().catch(async (error: unknown) => {
    await guess.refund();
    throw error;
  });
  await guess.settle(verdict.valid);
  return verdict;
}
