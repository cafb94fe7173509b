import { EventEmitter, once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';
import type { Turn } from '../common/keyed-queue.js';
import type { Networks } from '../common/network.js';
import type { SecurityEvent } from '../common/security-event.js';
import { SITE_BUDGET_FACTOR, type Limit } from '../config/limits.js';
import { Environment } from '../config/environment.js';
import { deriveKey, computeMac } from '../crypto/secret.js';
import { Database } from '../database/database.js';
import { Batcher } from './batcher.js';
import { PURGE, RESERVE, SETTLE, type Row } from './statements.js';
import { tooManyRequests, type Share } from './too-many-requests.js';

const MAX_REMEMBERED = 10_000;
/** After these refusals in a window each one takes a second: a client that waits for its answers floods no faster. */
const MAX_PROMPT_REFUSALS = 100;
const REFUSAL_DELAY_MS = 1_000;
const MAX_DELAYED = 1_000;
const MAX_WAITING = 2_000;
/** Other replicas do not wake what waits here. */
const RETRY_MS = 250;

interface Request {
  readonly shares: readonly Share[];
  /** When this row lives, only the first share can refuse. */
  readonly knownKey?: string;
  /** The points are not refunded. */
  readonly spends?: boolean;
}

/** A point that is in flight. */
interface Point {
  readonly key: string;
  readonly windowStart: Date;
}

interface Reservation {
  readonly isKnown: boolean;
  readonly points: readonly Point[];
  /** Shares of which no point is left; then none was taken of any. */
  readonly lacking: readonly Share[];
  /** Of the first share. */
  readonly remaining: number;
  readonly forMs: number;
}

interface Settlement {
  readonly points: readonly Point[];
  readonly isLost: boolean;
  readonly known?: { readonly key: string; readonly days: number };
}

/**
 * The windows that all replicas count in. Points are reserved before anything is verified: however many guesses run side
 * by side, a window never loses more than it has. What is `lost` stays so until its end; what is in flight may be refunded.
 */
@Injectable()
export class ThrottleWindows {
  private readonly digestKey;
  private readonly reservations = new Batcher<Request, Reservation>(MAX_WAITING, (batch) => this.reserveAll(batch));
  private readonly settlements = new Batcher<Settlement, undefined>(Infinity, (batch) => this.settleAll(batch));
  /** Keys that have lost everything until their window ends are refused without a statement. The value counts that. */
  private readonly exhausted = new LRUCache<string, number>({ max: MAX_REMEMBERED });
  private delayed = 0;
  private readonly freedKeys = new EventEmitter().setMaxListeners(0);

  constructor(
    { secretKey }: Environment,
    private readonly database: Database,
  ) {
    this.digestKey = deriveKey(secretKey, 'platform-auth/throttle-keys/v1');
  }

  /** One for each network. The table, and a dump of it, does not reveal accounts and networks (ASVS 14.2). */
  shares(name: string, limit: Limit, [network, ...wider]: Networks, ...account: string[]): [Share, ...Share[]] {
    const site = { ...limit, points: limit.points * SITE_BUDGET_FACTOR };
    const keyOf = (each: string): string =>
      `${name}:${computeMac(this.digestKey, [...account, each].join('\n')).toString('base64url')}`;
    return [{ name, key: keyOf(network), limit }, ...wider.map((each) => ({ name, key: keyOf(each), limit: site }))];
  }

  /** @throws {ProblemException} too_many_requests, when one of these is known to be exhausted */
  async refuseExhausted(event: SecurityEvent, shares: readonly Share[]): Promise<void> {
    const left = shares.map((share) => ({ share, forMs: this.exhausted.getRemainingTTL(share.key) }));
    const [longest] = left.filter(({ forMs }) => forMs > 0).sort((one, other) => other.forMs - one.forMs);
    if (!longest) return;
    const { share, forMs } = longest;
    const count = (this.exhausted.get(share.key) ?? 0) + 1;
    this.exhausted.set(share.key, count, { noUpdateTTL: true });
    if (count > MAX_PROMPT_REFUSALS && this.delayed < MAX_DELAYED) {
      this.delayed += 1;
      await sleep(REFUSAL_DELAY_MS, undefined, { ref: false });
      this.delayed -= 1;
    }
    throw tooManyRequests(event, share, forMs, count);
  }

  isExhausted(shares: readonly Share[]): boolean {
    return shares.some(({ key }) => this.exhausted.has(key));
  }

  exhaust({ key }: Share, forMs: number): void {
    if (forMs > 0 && !this.exhausted.has(key)) this.exhausted.set(key, 0, { ttl: Math.ceil(forMs) });
  }

  reserve(request: Request, turn: Turn): Promise<Reservation> {
    return this.reservations.add(request, turn);
  }

  async settle(settlement: Settlement): Promise<void> {
    await this.settlements.add(settlement, { networks: [], isKnown: false });
  }

  /** Resolves when points of the key may be free: at once when this replica settles some, soon when another one does. */
  async freed({ key }: Share): Promise<void> {
    await once(this.freedKeys, key, { signal: AbortSignal.timeout(RETRY_MS) }).catch(() => undefined);
  }

  /** @returns the number of rows deleted */
  async purge(lock: number): Promise<number> {
    return this.database.purge(PURGE, '0 days', lock);
  }

  private async reserveAll(batch: readonly Request[]): Promise<Reservation[]> {
    const claims = claimsOf(batch);
    const [limits, known] = [claims.map(({ share }) => share.limit), batch.flatMap(({ knownKey }) => knownKey ?? [])];
    const rows = await this.database.rows<Row>(RESERVE, [
      claims.map(({ share }) => share.key),
      limits.map(({ points }) => points),
      limits.map(({ seconds }) => seconds),
      claims.map(({ points }) => points),
      claims.map(({ spends }) => spends),
      known,
    ]);
    const left = new Map(rows.map((row) => [row.key, { row, points: row.granted }]));
    for (const { share } of claims) {
      const row = left.get(share.key)?.row;
      if (row && row.lost >= share.limit.points) this.exhaust(share, row.ms_left);
    }
    const reservations = batch.map((request) => take(request, left));
    const surplus = claims.flatMap(({ share, spends }) => {
      const entry = left.get(share.key);
      return entry && !spends ? Array.from({ length: entry.points }, () => pointOf(entry.row)) : [];
    });
    // Without an answer they come free when their time in flight is over.
    if (surplus.length > 0) this.settle({ points: surplus, isLost: false }).catch(() => undefined);
    return reservations;
  }

  private async settleAll(batch: readonly Settlement[]): Promise<undefined[]> {
    const points = batch.flatMap(({ points, isLost }) => points.map((point) => ({ ...point, lost: Number(isLost) })));
    const known = batch.flatMap((settlement) => settlement.known ?? []);
    await this.database.rows(SETTLE, [
      points.map(({ key }) => key),
      points.map(({ windowStart }) => windowStart),
      points.map(({ lost }) => lost),
      known.map(({ key }) => key),
      known[0]?.days ?? 0,
    ]);
    for (const key of new Set(points.map(({ key }) => key))) this.freedKeys.emit(key);
    return [];
  }
}

interface Claim {
  readonly share: Share;
  readonly spends: boolean;
  points: number;
}

/** What a batch wants of each key. A request that finds a limit reached in its own batch only learns the state of the rows. */
function claimsOf(batch: readonly Request[]): Claim[] {
  const claims = new Map<string, Claim>();
  for (const { shares, spends = false } of batch) {
    const own = shares.map((share) => claims.get(share.key) ?? { share, spends, points: 0 });
    if (own.some(({ share, points }) => points >= share.limit.points)) continue;
    for (const claim of own) {
      claim.points += 1;
      claims.set(claim.share.key, claim);
    }
  }
  return [...claims.values()];
}

/** Takes a point of each share, or of none when one that can refuse has none left. */
function take({ shares, knownKey, spends }: Request, left: Map<string, { row: Row; points: number }>): Reservation {
  const isKnown = knownKey !== undefined && left.has(knownKey);
  const has = ({ key }: Share): boolean => (left.get(key)?.points ?? 0) > 0;
  const lacking = shares.filter((share, index) => !has(share) && (index === 0 || !isKnown));
  // Those whose row is known come first: they are the ones to wait for.
  lacking.sort((one, other) => Number(left.has(other.key)) - Number(left.has(one.key)));
  const taken = lacking.length > 0 ? [] : shares.filter(has).flatMap(({ key }) => left.get(key) ?? []);
  for (const entry of taken) entry.points -= 1;
  const [share] = shares;
  const first = share && left.get(share.key);
  const points = spends ? [] : taken.map(({ row }) => pointOf(row));
  const remaining = first ? share.limit.points - first.row.lost + first.points : 0;
  return { isKnown, points, lacking, remaining, forMs: first?.row.ms_left ?? 0 };
}

function pointOf({ key, window_start: windowStart }: Row): Point {
  return { key, windowStart };
}
