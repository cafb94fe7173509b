import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import type { RateLimiterStoreAbstract } from 'rate-limiter-flexible';
import { ProblemException } from '../common/problem.exception.js';
import { problems } from '../common/problems.js';
import { Environment } from '../config/environment.js';
import { GuessBudget, type Reservation } from './budget.js';
import { counted, CounterStore } from './counter-store.js';
import { Line } from './line.js';
import { networkOf } from './network-of.js';
import { tooManyRequests, type Exhausted } from './too-many-requests.js';

const SECONDS_PER_DAY = 86_400;
const RETRY_MS = 20;
/** How long a login waits for others in flight that may yet turn out to be good. Then it is 503. */
const LONGEST_WAIT_MS = 20_000;

/** One budget and whom it is about, for one login. */
interface Share {
  readonly budget: GuessBudget;
  readonly key: string;
}
type Claim = Share & { readonly reservation: Reservation };

/**
 * Counts wrong passwords per account and address, per account, and per address; whether there is such an account
 * makes no difference. An address where the account logged in lately is known: there only the first of the three can
 * refuse, so that no stranger elsewhere locks the owner out. See docs/throttling.md.
 */
@Injectable()
export class LoginThrottle {
  private readonly perAccountAndAddress: GuessBudget;
  private readonly perAccount: GuessBudget;
  private readonly perAddress: GuessBudget;
  private readonly known: RateLimiterStoreAbstract;
  private readonly knownSeconds: number;
  private readonly line = new Line();

  constructor(
    private readonly store: CounterStore,
    { limits }: Environment,
  ) {
    this.perAccountAndAddress = new GuessBudget(store, 'login-account-address', limits.loginPerAccountAndAddress);
    this.perAccount = new GuessBudget(store, 'login-account', limits.loginPerAccount);
    this.perAddress = new GuessBudget(store, 'login-address', limits.loginPerAddress);
    this.knownSeconds = limits.knownAddressDays * SECONDS_PER_DAY;
    this.known = store.counter('known-address', { points: 1, seconds: this.knownSeconds });
  }

  /**
   * Verifies a password, unless too many were wrong before. A refused attempt is not verified at all.
   * @param account canonical address
   * @param address the caller's
   * @throws {ProblemException} too_many_requests; unavailable when nothing can be counted; hashing_busy after a long
   * wait for others; whatever `verify` throws
   */
  async guess<Verdict extends { readonly valid: boolean }>(
    account: string,
    address: string | undefined,
    verify: () => Promise<Verdict>,
  ): Promise<Verdict> {
    const network = networkOf(address);
    const pair = this.store.keyOf('account-address', account, network);
    const shares = [
      { budget: this.perAccountAndAddress, key: pair },
      { budget: this.perAccount, key: this.store.keyOf('account', account) },
      { budget: this.perAddress, key: this.store.keyOf('address', network) },
    ];
    const waitUntil = performance.now() + LONGEST_WAIT_MS;
    const claims = await this.line.inTurn(pair, () => this.claim(shares, pair, waitUntil), isUnavailable);
    let verdict: Verdict;
    try {
      verdict = await verify();
    } catch (error) {
      // Nobody looked, so nothing was guessed.
      await Promise.allSettled(claims.map(giveBack));
      throw error;
    }
    if (verdict.valid) await Promise.all([...claims.map(giveBack), counted(this.remember(pair))]);
    else await Promise.all(claims.map(({ budget, reservation }) => budget.lose(reservation)));
    return verdict;
  }

  /** Reserves a point of each budget, waiting while the last ones are in use by logins in flight. */
  private async claim(shares: Share[], pair: string, waitUntil: number): Promise<Claim[]> {
    refuse(shares.slice(0, 1).flatMap(rememberedAsExhausted));
    const isKnown = (await counted(this.known.get(pair))) !== null;
    const binding = isKnown ? shares.slice(0, 1) : shares;
    for (;;) {
      refuse(binding.flatMap(rememberedAsExhausted));
      const claims = await reserveAll(shares);
      const full = claims.slice(0, binding.length).filter(({ reservation }) => !reservation.isWithin);
      if (full.length === 0) return claims;
      await Promise.all(claims.map(giveBack));
      refuse(await exhaustedOf(full));
      if (performance.now() > waitUntil) throw new ProblemException(problems.hashingBusy);
      await sleep(RETRY_MS);
    }
  }

  private async remember(pair: string): Promise<void> {
    await this.known.set(pair, 1, this.knownSeconds);
  }
}

/** All or none: what was reserved before the store failed is given back as far as it lets us. */
async function reserveAll(shares: Share[]): Promise<Claim[]> {
  const outcomes = await Promise.allSettled(
    shares.map(async ({ budget, key }) => ({ budget, key, reservation: await budget.reserve(key) })),
  );
  const claims = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
  const failed = outcomes.find((outcome) => outcome.status === 'rejected');
  if (!failed) return claims;
  await Promise.allSettled(claims.map(giveBack));
  throw failed.reason;
}

async function giveBack({ budget, reservation }: Claim): Promise<void> {
  await budget.giveBack(reservation);
}

async function exhaustedOf(full: Claim[]): Promise<Exhausted[]> {
  const verdicts = await Promise.all(full.map(({ budget, reservation }) => budget.isExhausted(reservation)));
  return full
    .filter((_, index) => verdicts[index])
    .map(({ budget, reservation }) => ({ budget, forMs: reservation.endsAtMs - performance.now() }));
}

function rememberedAsExhausted({ budget, key }: Share): Exhausted[] {
  const forMs = budget.exhaustedForMs(key);
  return forMs > 0 ? [{ budget, forMs }] : [];
}

function refuse([first, ...others]: Exhausted[]): void {
  if (first) throw tooManyRequests('user.login.throttled', [first, ...others]);
}

function isUnavailable(error: unknown): boolean {
  return error instanceof ProblemException && error.problem === problems.unavailable;
}
