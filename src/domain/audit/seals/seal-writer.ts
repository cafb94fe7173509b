/**
 * Appends to the chain of seals, in one replica at a time, in bounded steps, and outside of requests. A seal covers the
 * rows that its snapshot shows and the snapshot of the preceding seal does not, so that a transaction that stays open
 * for hours is neither missed nor waited for (decision 43). test/domain/audit/seals.spec.ts fails otherwise.
 */
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { NIL } from 'uuid';
import { Environment } from '../../../foundation/config/environment.js';
import { LOCKS, tryLock } from '../../../foundation/database/locks.js';
import { Log } from '../../../foundation/logging/log.js';
import {
  BEFORE_FIRST_SEAL,
  digestEntries,
  encodeEntries,
  CANONICAL_ROW,
  IS_SEALED,
  LAST_SEAL,
  MICROS,
  SealKey,
  type EpochSnapshot,
  type Fold,
  type Position,
  type SealContent,
  type SealEntry,
  type StoredSeal,
} from './seal.js';

const COLUMNS = `logged.epoch, logged.xid::text AS xid, logged.time::text AS time, logged.id,
  (${MICROS})::text AS micros,
  to_char(logged.time, 'YYYY-MM') AS month, ${CANONICAL_ROW} AS canonical,
  extract(epoch FROM clock_timestamp() - logged.recorded_at)::float8 AS "ageSeconds"`;

/** Forces the index, so that a batch reads its own rows instead of sorting all unsealed ones. */
const FORCE_INDEX = "SET LOCAL TimeZone = 'UTC'; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off";

function selectRows(condition: string): string {
  return `(SELECT ${COLUMNS} FROM audit_events AS logged
    WHERE ${condition} AND ${IS_SEALED}
      AND (logged.epoch, logged.xid, logged.time, logged.id) > ($6, $7::xid8, $8::timestamptz, $9::uuid)
    ORDER BY logged.epoch, logged.xid, logged.time, logged.id LIMIT $10)`;
}

/**
 * Selects up to `$10` rows after the position `$6` to `$9` that the snapshot `$2` of epoch `$1` shows, and the snapshot
 * of epoch `$3` with xmax `$4` and transactions in progress `$5` does not. Each branch is one reason why the earlier
 * snapshot does not show a row, and reads its own part of the index.
 */
const ROWS_TO_SEAL = `SELECT * FROM (
    ${selectRows('logged.epoch = $3 AND logged.xid >= $4::xid8')}
    UNION ALL ${selectRows('logged.epoch = $3 AND logged.xid < $4::xid8 AND logged.xid = ANY ($5::xid8[])')}
    UNION ALL ${selectRows('logged.epoch > $3')}) AS logged
  ORDER BY epoch, xid::xid8, time::timestamptz, id LIMIT $10`;

const PRESENT = `SELECT pg_current_snapshot()::text AS snapshot, clock_timestamp() AS at,
  (SELECT epoch FROM audit_settings) AS epoch`;

const INSERT_SEAL = 'INSERT INTO audit_seals (number, content, mac) VALUES ($1, $2, $3)';
const INSERT_ENTRIES = 'INSERT INTO audit_seal_entries (number, latest, entries) VALUES ($1, $2::timestamptz, $3)';
const ENSURE_EPOCH = 'SELECT audit_events_ensure_epoch()';

const ROWS_PER_SEAL = 1_000;
const MAX_SEALS_PER_RUN = 20;
/** A quiet period gets a seal without rows, so that a row that is backdated into it is detected. */
const MAX_SILENCE_MS = 10 * 60_000;
const BEFORE_ALL: Position = { epoch: -1, xid: '0', time: '-infinity', id: NIL };
const NO_ROWS = { rows: 0, entries: digestEntries(Buffer.alloc(0)), months: [] };

const NO_SPAN = { from: BEFORE_FIRST_SEAL, to: BEFORE_FIRST_SEAL, through: null };

interface RowToSeal extends Position {
  readonly micros: string;
  readonly month: string;
  readonly canonical: string;
  readonly ageSeconds: number;
}

@Injectable()
export class SealWriter {
  private readonly key: SealKey;
  private highestSeen = 0;

  constructor(
    environment: Environment,
    private readonly dataSource: DataSource,
    private readonly log: Log,
  ) {
    this.key = new SealKey(environment.auditSealKey ?? environment.masterKey);
  }

  /** @returns the number of sealed rows; 0 while another replica holds the lock */
  async sealNewRows(): Promise<number> {
    // Needs a transaction of its own, because the transaction of a seal must get its id after its snapshot (decision
    // 43).
    await this.dataSource.query(ENSURE_EPOCH);
    let total = 0;
    for (let made = 0; made < MAX_SEALS_PER_RUN; made += 1) {
      const seal = await this.dataSource.transaction((transaction) => this.sealNext(transaction));
      total += seal?.rows ?? 0;
      if (!seal?.through) break;
    }
    return total;
  }

  /** @returns the age in seconds of the oldest unsealed row; 0 when every row is sealed */
  async measureLag(): Promise<number> {
    return this.dataSource.transaction(async (transaction) => {
      await transaction.query(FORCE_INDEX);
      const [last] = await transaction.query<StoredSeal[]>(LAST_SEAL);
      const content = last && (JSON.parse(last.content) as SealContent);
      const { from, to, after } = computeNextSpan(content, await readPresent(transaction));
      // The first row is the oldest, because the index has the order in which transactions began.
      const [oldest] = await transaction.query<RowToSeal[]>(ROWS_TO_SEAL, toParameters(from, to, after, 1));
      return Math.max(0, oldest?.ageSeconds ?? 0);
    });
  }

  /** Takes the lock of the chain until the transaction ends. @returns false while another replica holds it */
  async lockChain(transaction: EntityManager): Promise<boolean> {
    return tryLock(transaction, LOCKS.auditSeals);
  }

  /** Appends a seal without rows that records the drop of a month, or a fold. The caller holds the lock. */
  async appendRecord(
    transaction: EntityManager,
    record: { readonly dropped: string } | { readonly dropped: null; readonly folded: Fold },
  ): Promise<void> {
    const last = await this.readLastSeal(transaction);
    const { from, to, through } = last?.content ?? NO_SPAN;
    const { at } = await readPresent(transaction);
    await this.append(transaction, last, { at, from, to, through, ...NO_ROWS, ...record });
  }

  private async sealNext(transaction: EntityManager): Promise<SealContent | undefined> {
    if (!(await this.lockChain(transaction))) return undefined;
    await transaction.query(FORCE_INDEX);
    const last = await this.readLastSeal(transaction);
    const { at, ...present } = await readPresent(transaction);
    const { from, to, after } = computeNextSpan(last?.content, { at, ...present });
    const rows = await transaction.query<RowToSeal[]>(ROWS_TO_SEAL, toParameters(from, to, after, ROWS_PER_SEAL));
    if (rows.length === 0 && !after && last && Date.parse(at) - Date.parse(last.content.at) < MAX_SILENCE_MS)
      return undefined;
    const entries = encodeEntries(rows.map((row) => this.toEntry(row)));
    const months = [...new Set(rows.map(({ month }) => month))].sort();
    const { epoch, xid, time, id } = rows.at(-1) ?? BEFORE_ALL;
    const through = rows.length === ROWS_PER_SEAL ? { epoch, xid, time, id } : null;
    const summary = { rows: rows.length, entries: digestEntries(entries), months };
    const seal = await this.append(transaction, last, { at, from, to, through, ...summary, dropped: null });
    const latest = findLatestTime(rows);
    if (latest !== undefined) await transaction.query(INSERT_ENTRIES, [seal.number, latest, entries]);
    return seal;
  }

  private toEntry({ id, micros, canonical }: RowToSeal): SealEntry {
    return { id, micros: BigInt(micros), mac: this.key.computeRowMac(canonical) };
  }

  private async readLastSeal(transaction: EntityManager): Promise<{ content: SealContent; mac: Buffer } | undefined> {
    const [seal] = await transaction.query<StoredSeal[]>(LAST_SEAL);
    const number = Number(seal?.number ?? 0);
    if (number < this.highestSeen) this.log.error('audit_seals_missing', { count: this.highestSeen - number });
    this.highestSeen = number;
    return seal && { content: JSON.parse(seal.content) as SealContent, mac: seal.mac };
  }

  private async append(
    transaction: EntityManager,
    last: { content: SealContent; mac: Buffer } | undefined,
    own: Omit<SealContent, 'number' | 'previous' | 'key'>,
  ): Promise<SealContent> {
    const number = (last?.content.number ?? 0) + 1;
    const content: SealContent = { number, previous: last?.mac.toString('hex') ?? '', key: this.key.id, ...own };
    const text = JSON.stringify(content);
    await transaction.query(INSERT_SEAL, [number, text, this.key.computeSealMac(text)]);
    return content;
  }
}

/** Returns the rest of the last seal's span if it has more rows, otherwise the span from its end to the present. */
function computeNextSpan(
  last: SealContent | undefined,
  present: EpochSnapshot,
): { from: EpochSnapshot; to: EpochSnapshot; after: Position | null } {
  if (!last) return { from: BEFORE_FIRST_SEAL, to: present, after: null };
  if (last.through) return { from: last.from, to: last.to, after: last.through };
  return { from: last.to, to: present, after: null };
}

async function readPresent(transaction: EntityManager): Promise<EpochSnapshot & { readonly at: string }> {
  const [row] = await transaction.query<{ epoch: number; snapshot: string; at: Date }[]>(PRESENT);
  if (!row) throw new Error('audit_settings has no row');
  return { epoch: row.epoch, snapshot: row.snapshot, at: row.at.toISOString() };
}

function toParameters(from: EpochSnapshot, to: EpochSnapshot, after: Position | null, limit: number): unknown[] {
  const [, xmax, inProgress = ''] = from.snapshot.split(':');
  const xids = inProgress.split(',').filter((xid) => xid !== '');
  const { epoch, xid, time, id } = after ?? BEFORE_ALL;
  return [to.epoch, to.snapshot, from.epoch, xmax, xids, epoch, xid, time, id, limit];
}

function findLatestTime(rows: readonly RowToSeal[]): string | undefined {
  const latest = rows.reduce<RowToSeal | undefined>(
    (found, row) => (found && BigInt(found.micros) >= BigInt(row.micros) ? found : row),
    undefined,
  );
  return latest?.time;
}
