/**
 * Counts attempts in windows that all replicas share. A point is reserved before a guess is verified, and then consumed
 * (a wrong guess) or refunded. `consumed + reserved` never exceeds a limit, so parallel guesses cannot race past it.
 * Without the table every caller fails closed (503). See docs/throttling.md; test/foundation/throttling/flood.spec.ts
 * fails without the reservations.
 */
import { EventEmitter, once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { Ticket } from '../common/fair-queue.js';
import { Database } from '../database/database.js';
import { ProblemException, problems } from '../problems/problems.js';
import { Batcher } from './batcher.js';
import { ExhaustedBuckets, UNLOCK_CHECK_INTERVAL_MS, UNLOCK_KEY } from './exhausted-buckets.js';
import { LONGEST_WINDOW_SECONDS, type RateLimitBucket } from './rate-limit-buckets.js';

const MAX_QUEUED = 2_000;
/** A login makes its network known to the account for this long. */
const KNOWN_ADDRESS_DAYS = 30;
/** Margin for a replica that read an exhausted window just before the removal. */
const UNLOCK_MARGIN_MS = 200;
/** Waiters notice another replica's refund only by polling. */
const POLL_INTERVAL_MS = 250;

/** A row as the statement RESERVE returns it. */
interface ReservedWindow {
  readonly key: string;
  readonly consumed: number;
  /** Points that the batch got and that its requests have not taken yet. */
  last_reserved: number;
  readonly window_start: Date;
  readonly ms_left: number;
}

interface ReserveRequest {
  readonly buckets: readonly RateLimitBucket[];
  /** While a row with this key exists, the network is known and only the first bucket can refuse. */
  readonly knownKey?: string;
  /** Consumes the points at once, so that no settlement follows. */
  readonly spends?: boolean;
}

interface Reservation {
  readonly isKnown: boolean;
  /** One point of each row, reserved or (with `spends`) consumed. */
  readonly points: readonly ReservedWindow[];
  /** Buckets without a point left. If there is one, no point was taken from the others either. */
  readonly lacking: readonly RateLimitBucket[];
}

interface Settlement {
  readonly points: readonly ReservedWindow[];
  readonly isConsumed: boolean;
  /** Makes the network of this key known for KNOWN_ADDRESS_DAYS. */
  readonly knownKey?: string;
}

interface OpenWindow {
  readonly consumed: number;
  readonly window_end: Date;
}

export interface ExhaustedLimit {
  readonly name: RateLimitBucket['name'];
  readonly key: string;
  readonly until: Date;
}

export function listExhausted(
  buckets: readonly RateLimitBucket[],
  open: ReadonlyMap<string, OpenWindow>,
): ExhaustedLimit[] {
  return buckets.flatMap(({ name, key, limit }) => {
    const window = open.get(key);
    return window && window.consumed >= limit.points ? [{ name, key, until: window.window_end }] : [];
  });
}

@Injectable()
export class ThrottleWindows {
  private readonly reservations = new Batcher<ReserveRequest, Reservation>(MAX_QUEUED, (b) => this.reserveBatch(b));
  private readonly settlements = new Batcher<Settlement, undefined>(Infinity, (batch) => this.settleBatch(batch));
  private readonly freedKeys = new EventEmitter().setMaxListeners(0);

  constructor(
    private readonly exhausted: ExhaustedBuckets,
    private readonly database: Database,
  ) {}

  /** @throws {ProblemException} unavailable; hashing_busy when the queue is full */
  reservePoints(request: ReserveRequest, ticket: Ticket): Promise<Reservation> {
    return this.reservations.addItem(request, ticket);
  }

  /**
   * Reserves a point of each bucket, and waits while others may refund theirs.
   * @param refuseExhausted called before each attempt, so that a bucket that is known to be exhausted costs no
   * statement
   * @throws {ProblemException} too_many_requests; unavailable; hashing_busy after a long wait, or when the queue is
   * full
   */
  async awaitPoints(
    { request, ticket, maxWaitMs }: { request: ReserveRequest; ticket: Ticket; maxWaitMs: number },
    refuseExhausted: () => Promise<void>,
  ): Promise<Reservation> {
    const deadline = performance.now() + maxWaitMs;
    for (;;) {
      await refuseExhausted();
      const reservation = await this.reservePoints(request, ticket);
      const [lacking] = reservation.lacking;
      if (!lacking) return reservation;
      await this.exhausted.refuseAny(reservation.lacking);
      if (performance.now() > deadline) throw new ProblemException(problems.hashingBusy);
      await this.awaitFreed(lacking);
    }
  }

  /**
   * Consumes a point of each bucket.
   * @returns the rows of the buckets, in their order
   * @throws {ProblemException} too_many_requests; unavailable; hashing_busy when the queue is full
   */
  async spendPoints(buckets: readonly RateLimitBucket[], ticket: Ticket): Promise<readonly ReservedWindow[]> {
    for (;;) {
      await this.exhausted.refuseAny(buckets);
      const { points } = await this.reservePoints({ buckets, spends: true }, ticket);
      if (points.length > 0) return points;
    }
  }

  async settlePoints(settlement: Settlement): Promise<void> {
    await this.settlements.addItem(settlement);
  }

  /** @returns the open windows of these keys, by their key */
  async readWindows(keys: readonly string[]): Promise<Map<string, OpenWindow>> {
    const rows = await this.database.rows<OpenWindow & { readonly key: string }>(READ, [keys]);
    return new Map(rows.map((row) => [row.key, row]));
  }

  /** @returns how many accounts or networks each limit refuses now; limits that refuse none are missing */
  async countExhausted(): Promise<{ readonly name: string; readonly count: number }[]> {
    return this.database.rows(COUNT_EXHAUSTED, []);
  }

  /** Removes windows, and makes every replica read again which buckets are exhausted. @returns the number of windows */
  async removeWindows(transaction: EntityManager, keys: readonly string[]): Promise<number> {
    return (await transaction.query<unknown[]>(REMOVE, [keys])).length;
  }

  /**
   * To be called after the commit of {@link removeWindows}. Afterwards no replica refuses because of a removed window.
   */
  async awaitRemoval(): Promise<void> {
    this.exhausted.forgetAll();
    await sleep(UNLOCK_CHECK_INTERVAL_MS + UNLOCK_MARGIN_MS);
  }

  /**
   * Resolves when points of the bucket may be free: at once after a settlement of this replica, within the poll
   * interval after one of another.
   */
  private async awaitFreed({ key }: RateLimitBucket): Promise<void> {
    await once(this.freedKeys, key, { signal: AbortSignal.timeout(POLL_INTERVAL_MS) }).catch(() => undefined);
  }

  private async reserveBatch(batch: readonly ReserveRequest[]): Promise<Reservation[]> {
    const claimsByKey = toClaims(batch);
    const claims = [...claimsByKey.values()];
    const rows = await this.database.rows<ReservedWindow>(RESERVE, [
      claims.map(({ bucket }) => bucket.key),
      claims.map(({ bucket }) => bucket.limit.points),
      claims.map(({ bucket }) => bucket.limit.seconds),
      claims.map(({ wanted, spends }) => (spends ? wanted : 0)),
      claims.map(({ wanted, spends }) => (spends ? 0 : wanted)),
      batch.flatMap(({ knownKey }) => knownKey ?? []),
    ]);
    for (const row of rows) {
      const bucket = claimsByKey.get(row.key)?.bucket;
      if (bucket && row.consumed >= bucket.limit.points) this.exhausted.remember(bucket, row.ms_left);
    }
    const rowsByKey = new Map(rows.map((row) => [row.key, row]));
    const reservations = batch.map((request) => takePoints(request, rowsByKey));
    const reserving = rows.filter(({ key }) => claimsByKey.get(key)?.spends === false);
    const surplus = reserving.flatMap((row) => Array<ReservedWindow>(row.last_reserved).fill(row));
    // If this fails, the points expire with their reservation.
    if (surplus.length > 0) this.settlePoints({ points: surplus, isConsumed: false }).catch(() => undefined);
    return reservations;
  }

  private async settleBatch(batch: readonly Settlement[]): Promise<undefined[]> {
    const points = batch.flatMap(({ points, isConsumed }) =>
      points.map((row) => ({ row, consumed: Number(isConsumed) })),
    );
    await this.database.rows(SETTLE, [
      points.map(({ row }) => row.key),
      points.map(({ row }) => row.window_start),
      points.map(({ consumed }) => consumed),
      batch.flatMap(({ knownKey }) => knownKey ?? []),
      KNOWN_ADDRESS_DAYS,
    ]);
    for (const key of new Set(points.map(({ row }) => row.key))) this.freedKeys.emit(key);
    return [];
  }
}

interface Claim {
  readonly bucket: RateLimitBucket;
  readonly spends: boolean;
  wanted: number;
}

/** Sums up the wanted points of each key. A request that exceeds a limit with earlier ones claims none. */
function toClaims(batch: readonly ReserveRequest[]): Map<string, Claim> {
  const claims = new Map<string, Claim>();
  for (const { buckets, spends = false } of batch) {
    const own = buckets.map((bucket) => claims.get(bucket.key) ?? { bucket, spends, wanted: 0 });
    if (own.some(({ bucket, wanted }) => wanted >= bucket.limit.points)) continue;
    for (const claim of own) {
      claim.wanted += 1;
      claims.set(claim.bucket.key, claim);
    }
  }
  return claims;
}

/** Takes one point of every bucket, or none if one that can refuse is empty. */
function takePoints({ buckets, knownKey }: ReserveRequest, rowsByKey: Map<string, ReservedWindow>): Reservation {
  const isKnown = knownKey !== undefined && rowsByKey.has(knownKey);
  const pairs = buckets.map((bucket) => ({ bucket, row: rowsByKey.get(bucket.key) }));
  const lacking = pairs.filter(({ row }, index) => !row?.last_reserved && (index === 0 || !isKnown));
  // awaitPoints() waits for the first bucket. Only a row tells whether a bucket is exhausted, so buckets whose row was
  // read come first.
  lacking.sort((one, other) => Number(!one.row) - Number(!other.row));
  const points = lacking.length > 0 ? [] : pairs.flatMap(({ row }) => (row?.last_reserved ? row : []));
  for (const row of points) row.last_reserved -= 1;
  return { isKnown, points, lacking: lacking.map(({ bucket }) => bucket) };
}

/** Rounded to milliseconds, so that a Date of JavaScript can identify a window. */
const NOW = `date_trunc('milliseconds', now())`;
/**
 * A window is over at its end, and also when it ends later than a window that begins now. Otherwise, after an operator
 * shortened the limit or the clock of PostgreSQL was set back, it would refuse until its old end.
 */
const IS_OVER = `(w.window_end <= now() OR w.window_end > excluded.window_end + interval '1 minute')`;
const CONSUMED = `(CASE WHEN ${IS_OVER} THEN 0 ELSE w.consumed END)`;
const RESERVED = `(CASE WHEN ${IS_OVER} OR w.reserved_until <= now() THEN 0 ELSE w.reserved END)`;
const TAKEN = `GREATEST(0, LEAST(excluded.last_reserved, excluded.points - ${CONSUMED} - ${RESERVED}))`;
const STATE = `key, consumed, last_reserved, window_start,
  (extract(epoch FROM window_end - now()) * 1000)::float8 AS ms_left`;

/**
 * Takes as many of the wanted points of each key ($1) as are left, consumed ($4) or reserved ($5), and reads the live
 * rows of the keys $6. Replicas cannot deadlock, because every statement locks the rows of buckets in the order of their
 * keys. SETTLE alone also locks those of known addresses, which are never buckets, in the order of theirs.
 * A reservation lasts a minute, which is longer than a verification: 3 s to read the account, 20 s in the queue, and
 * one bcrypt.
 */
export const RESERVE = {
  name: 'throttle_reserve',
  text: `
    WITH taken AS (
      INSERT INTO throttle_windows AS w
        (key, points, window_start, window_end, consumed, reserved, reserved_until, last_reserved)
      SELECT key, points, ${NOW}, ${NOW} + seconds * interval '1 s', consumed, reserved,
        now() + interval '1 minute', consumed + reserved
      FROM unnest($1::text[], $2::int[], $3::int[], $4::int[], $5::int[])
        AS wanted (key, points, seconds, consumed, reserved)
      ORDER BY key COLLATE "C"
      ON CONFLICT (key) DO UPDATE SET
        points = excluded.points, last_reserved = ${TAKEN},
        window_start = CASE WHEN ${IS_OVER} THEN excluded.window_start ELSE w.window_start END,
        window_end = CASE WHEN ${IS_OVER} THEN excluded.window_end ELSE w.window_end END,
        consumed = ${CONSUMED} + LEAST(excluded.consumed, ${TAKEN}),
        reserved = ${RESERVED} + LEAST(excluded.reserved, ${TAKEN}),
        reserved_until = CASE WHEN ${TAKEN} > 0 THEN GREATEST(w.reserved_until, excluded.reserved_until)
                               ELSE w.reserved_until END
      RETURNING ${STATE})
    SELECT * FROM taken
    UNION ALL SELECT ${STATE} FROM throttle_windows WHERE key = ANY ($6::text[]) AND window_end > now()`,
};

/** Ends reservations ($1, $2), consumes those that $3 marks, and keeps the rows of the keys $4 for $5 days. */
const SETTLE = {
  name: 'throttle_settle',
  text: `
    WITH known AS (
      INSERT INTO throttle_windows
        (key, points, window_start, window_end, consumed, reserved, reserved_until, last_reserved)
      SELECT key, 1, now(), now() + $5 * interval '1 day', 1, 0, now(), 0 FROM unnest($4::text[]) AS key
      GROUP BY key ORDER BY key COLLATE "C"
      ON CONFLICT (key) DO UPDATE SET window_end = excluded.window_end),
    settled AS (
      SELECT key, window_start, count(*) AS ended, sum(consumed) AS consumed
      FROM unnest($1::text[], $2::timestamptz[], $3::int[]) AS given (key, window_start, consumed) GROUP BY 1, 2),
    locked AS (SELECT key FROM throttle_windows WHERE key = ANY ($1) ORDER BY key COLLATE "C" FOR UPDATE)
    UPDATE throttle_windows AS w SET consumed = w.consumed + settled.consumed,
      reserved = GREATEST(0, w.reserved - settled.ended)
    FROM settled JOIN locked USING (key) WHERE w.key = settled.key AND w.window_start = settled.window_start`,
};

const READ = {
  name: 'throttle_read',
  text: `SELECT key, consumed, window_end FROM throttle_windows WHERE key = ANY ($1::text[]) AND window_end > now()`,
};

/** Excludes rows of known addresses, which are no limits. */
const COUNT_EXHAUSTED = {
  name: 'throttle_count_exhausted',
  text: `SELECT split_part(key, ':', 1) AS name, count(*)::integer AS count FROM throttle_windows
    WHERE window_end > now() AND window_end < now() + interval '${LONGEST_WINDOW_SECONDS + 60} s'
      AND consumed >= points AND key NOT LIKE 'known-address:%' GROUP BY 1 ORDER BY 1`,
};

/** The row UNLOCK_KEY must outlive every window that a replica may remember. */
const REMOVE = `
  WITH removed AS (
    DELETE FROM throttle_windows WHERE key IN
      (SELECT key FROM throttle_windows WHERE key = ANY ($1::text[]) ORDER BY key COLLATE "C" FOR UPDATE)
    RETURNING key),
  noted AS (
    INSERT INTO throttle_windows
      (key, points, window_start, window_end, consumed, reserved, reserved_until, last_reserved)
    VALUES ('${UNLOCK_KEY}', 1, now(), now() + interval '${LONGEST_WINDOW_SECONDS} s', 0, 0, now(), 0)
    ON CONFLICT (key) DO UPDATE SET window_start = excluded.window_start, window_end = excluded.window_end)
  SELECT key FROM removed`;
