/**
 * Counts tries in windows that all replicas share. A point is reserved before anything is verified: in flight until the
 * verification settles it as lost (a wrong guess) or refunds it. `lost + in_flight` never exceeds a limit, so parallel
 * guesses cannot race past it. Lost points stay until their window ends. Without the table every caller fails closed
 * (503). See docs/throttling.md.
 */
import { EventEmitter, once } from 'node:events';
import { Injectable } from '@nestjs/common';
import type { Turn } from '../common/keyed-queue.js';
import { Environment } from '../config/environment.js';
import { Database } from '../database/database.js';
import { ProblemException } from '../problems/problem.exception.js';
import { problems } from '../problems/problems.js';
import { Batcher } from './batcher.js';
import type { Budget, ThrottleEvent } from './budgets.js';
import { ExhaustedBudgets } from './exhausted-budgets.js';
import { PURGE, READ, RESERVE, SETTLE, type ReservedWindow } from './statements.js';

const MAX_QUEUED = 2_000;
/** A refund by another replica wakes no waiting login here. */
const RETRY_INTERVAL_MS = 250;

interface ReserveRequest {
  readonly budgets: readonly Budget[];
  /** While the row of this key lives, only the first budget can refuse. */
  readonly knownKey?: string;
  /** The points are lost at once, without a settlement. */
  readonly spends?: boolean;
}

interface TimedRequest {
  readonly event: ThrottleEvent;
  readonly request: ReserveRequest;
  readonly turn: Turn;
  /** How long to wait for points in flight. */
  readonly maxWaitMs: number;
}

interface Reservation {
  readonly isKnown: boolean;
  /** One point of each row: in flight, or lost if the request spends them. */
  readonly points: readonly ReservedWindow[];
  /** Budgets without a point left. If there is any, no point was taken of the others either. */
  readonly lacking: readonly Budget[];
}

interface Settlement {
  readonly points: readonly ReservedWindow[];
  readonly isLost: boolean;
  /** Keeps the row of this key alive for 30 days. */
  readonly knownKey?: string;
}

export interface OpenWindow {
  readonly lost: number;
  readonly window_end: Date;
}

@Injectable()
export class ThrottleWindows {
  private readonly reservations = new Batcher<ReserveRequest, Reservation>(MAX_QUEUED, (b) => this.reserveBatch(b));
  private readonly settlements = new Batcher<Settlement, undefined>(Infinity, (batch) => this.settleBatch(batch));
  private readonly freedKeys = new EventEmitter().setMaxListeners(0);

  constructor(
    private readonly exhausted: ExhaustedBudgets,
    private readonly database: Database,
    private readonly environment: Environment,
  ) {}

  /** @throws {ProblemException} unavailable; hashing_busy when the queue is full */
  reserve(request: ReserveRequest, turn: Turn): Promise<Reservation> {
    return this.reservations.add(request, turn);
  }

  /**
   * Takes a point of each budget, and waits while points in flight may be refunded.
   * @param refuseExhausted before each try, so that a budget that is known to be exhausted costs no statement
   * @throws {ProblemException} too_many_requests; unavailable; hashing_busy after a long wait, or when the queue is full
   */
  async reserveInTime(
    { event, request, turn, maxWaitMs }: TimedRequest,
    refuseExhausted: () => Promise<void>,
  ): Promise<Reservation> {
    const deadline = performance.now() + maxWaitMs;
    for (;;) {
      await refuseExhausted();
      const reservation = await this.reserve(request, turn);
      const [lacking] = reservation.lacking;
      if (!lacking) return reservation;
      await this.exhausted.refuseAny(event, reservation.lacking);
      if (performance.now() > deadline) throw new ProblemException(problems.hashingBusy);
      await this.awaitFreed(lacking);
    }
  }

  /**
   * Takes a point of each budget for good.
   * @returns the rows of the budgets, in their order
   * @throws {ProblemException} too_many_requests; unavailable; hashing_busy when the queue is full
   */
  async spend(event: ThrottleEvent, budgets: readonly Budget[], turn: Turn): Promise<readonly ReservedWindow[]> {
    for (;;) {
      await this.exhausted.refuseAny(event, budgets);
      const { points } = await this.reserve({ budgets, spends: true }, turn);
      if (points.length > 0) return points;
    }
  }

  async settle(settlement: Settlement): Promise<void> {
    await this.settlements.add(settlement);
  }

  /** Resolves when points of the budget may be free: at once after a settlement here, soon after one elsewhere. */
  private async awaitFreed({ key }: Budget): Promise<void> {
    await once(this.freedKeys, key, { signal: AbortSignal.timeout(RETRY_INTERVAL_MS) }).catch(() => undefined);
  }

  /** @returns the end of the window of each live row of these keys, and how many points are lost. Counts nothing. */
  async read(keys: readonly string[]): Promise<Map<string, OpenWindow>> {
    const rows = await this.database.rows<OpenWindow & { readonly key: string }>(READ, [keys]);
    return new Map(rows.map((row) => [row.key, row]));
  }

  /** @returns the number of rows deleted */
  async purge(): Promise<number> {
    return this.database.purge(PURGE, '0 days');
  }

  private async reserveBatch(batch: readonly ReserveRequest[]): Promise<Reservation[]> {
    const claimsByKey = toClaims(batch);
    const claims = [...claimsByKey.values()];
    const rows = await this.database.rows<ReservedWindow>(RESERVE, [
      claims.map(({ budget }) => budget.key),
      claims.map(({ budget }) => budget.limit.points),
      claims.map(({ budget }) => budget.limit.seconds),
      claims.map(({ wanted, spends }) => (spends ? wanted : 0)),
      claims.map(({ wanted, spends }) => (spends ? 0 : wanted)),
      batch.flatMap(({ knownKey }) => knownKey ?? []),
    ]);
    for (const row of rows) {
      const budget = claimsByKey.get(row.key)?.budget;
      if (budget && row.lost >= budget.limit.points) this.exhausted.add(budget, row.ms_left);
    }
    const rowsByKey = new Map(rows.map((row) => [row.key, row]));
    const reservations = batch.map((request) => takePoints(request, rowsByKey));
    const inFlight = rows.filter(({ key }) => claimsByKey.get(key)?.spends === false);
    const surplus = inFlight.flatMap((row) => Array<ReservedWindow>(row.granted).fill(row));
    // If it fails, these points expire with their time in flight.
    if (surplus.length > 0) this.settle({ points: surplus, isLost: false }).catch(() => undefined);
    return reservations;
  }

  private async settleBatch(batch: readonly Settlement[]): Promise<undefined[]> {
    const points = batch.flatMap(({ points, isLost }) => points.map((row) => ({ row, lost: Number(isLost) })));
    await this.database.rows(SETTLE, [
      points.map(({ row }) => row.key),
      points.map(({ row }) => row.window_start),
      points.map(({ lost }) => lost),
      batch.flatMap(({ knownKey }) => knownKey ?? []),
      this.environment.knownAddressDays,
    ]);
    for (const key of new Set(points.map(({ row }) => row.key))) this.freedKeys.emit(key);
    return [];
  }
}

interface Claim {
  readonly budget: Budget;
  readonly spends: boolean;
  wanted: number;
}

/** The points that a batch wants of each key. A request beyond a limit within its own batch claims none. */
function toClaims(batch: readonly ReserveRequest[]): Map<string, Claim> {
  const claims = new Map<string, Claim>();
  for (const { budgets, spends = false } of batch) {
    const own = budgets.map((budget) => claims.get(budget.key) ?? { budget, spends, wanted: 0 });
    if (own.some(({ budget, wanted }) => wanted >= budget.limit.points)) continue;
    for (const claim of own) {
      claim.wanted += 1;
      claims.set(claim.budget.key, claim);
    }
  }
  return claims;
}

/** Takes one of the granted points of each budget; of none, when a budget that can refuse has none left. */
function takePoints({ budgets, knownKey }: ReserveRequest, rowsByKey: Map<string, ReservedWindow>): Reservation {
  const isKnown = knownKey !== undefined && rowsByKey.has(knownKey);
  const pairs = budgets.map((budget) => ({ budget, row: rowsByKey.get(budget.key) }));
  const lacking = pairs.filter(({ row }, index) => !row?.granted && (index === 0 || !isKnown));
  // A login waits for the first one. Only a row that was read is known to be exhausted.
  lacking.sort((one, other) => Number(!one.row) - Number(!other.row));
  const points = lacking.length > 0 ? [] : pairs.flatMap(({ row }) => (row?.granted ? row : []));
  for (const row of points) row.granted -= 1;
  return { isKnown, points, lacking: lacking.map(({ budget }) => budget) };
}
