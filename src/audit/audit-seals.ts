import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { NIL } from 'uuid';
import { Environment } from '../config/environment.js';
import { LOCKS, tryLock } from '../database/locks.js';
import { Log } from '../logging/log.js';
import {
  BEFORE_FIRST_SEAL,
  digestEntries,
  encodeEntries,
  SealKey,
  type EpochSnapshot,
  type Position,
  type SealContent,
  type SealEntry,
  type StoredSeal,
} from './seal.js';
import * as sql from './seal-statements.js';

const ROWS_PER_SEAL = 1_000;
const MAX_SEALS_PER_RUN = 20;
/** A quiet period gets a seal without rows, so that a row backdated into it is detected. */
const MAX_SILENCE_MS = 10 * 60_000;
const BEFORE_ALL: Position = { epoch: -1, xid: '0', time: '-infinity', id: NIL };
const NO_ROWS = { rows: 0, entries: digestEntries(Buffer.alloc(0)), months: [] };

type Span = Pick<SealContent, 'from' | 'to' | 'through'>;

interface RowToSeal extends Position {
  readonly micros: string;
  readonly month: string;
  readonly canonical: string;
}

/** Appends to the chain of seals, in one replica at a time and in bounded steps. Not on the path of any request. */
@Injectable()
export class AuditSeals {
  private readonly key: SealKey;
  private highestSeen = 0;

  constructor(
    environment: Environment,
    private readonly dataSource: DataSource,
    private readonly log: Log,
  ) {
    this.key = new SealKey(environment.auditSealKey ?? environment.secretKey);
  }

  /**
   * Seals the rows that were committed since the last seal, at most {@link MAX_SEALS_PER_RUN} × {@link ROWS_PER_SEAL}.
   * @returns the number of rows; 0 also while another replica holds the lock
   */
  async run(): Promise<number> {
    // In a transaction of its own: that of a seal must get its id after its snapshot (docs/decisions/0043).
    await this.dataSource.query(sql.ENSURE_EPOCH);
    let total = 0;
    for (let made = 0; made < MAX_SEALS_PER_RUN; made += 1) {
      const seal = await this.dataSource.transaction((transaction) => this.sealNext(transaction));
      total += seal?.rows ?? 0;
      if (!seal?.through) break;
    }
    return total;
  }

  /** Takes the lock on the chain until the transaction ends. @returns false while another replica holds it */
  async lock(transaction: EntityManager): Promise<boolean> {
    return tryLock(transaction, LOCKS.auditSeals);
  }

  /** Appends a seal that states that retention dropped a month. The caller holds the lock. */
  async recordDrop(transaction: EntityManager, month: string): Promise<void> {
    const last = await this.readLastSeal(transaction);
    const { from, to, through }: Span = last?.content ?? {
      from: BEFORE_FIRST_SEAL,
      to: BEFORE_FIRST_SEAL,
      through: null,
    };
    const { at } = await readPresent(transaction);
    await this.append(transaction, last, { at, from, to, through, ...NO_ROWS, dropped: month });
  }

  private async sealNext(transaction: EntityManager): Promise<SealContent | undefined> {
    if (!(await this.lock(transaction))) return undefined;
    await transaction.query(sql.PLAN);
    const last = await this.readLastSeal(transaction);
    const { at, ...present } = await readPresent(transaction);
    const { from, to, after } = computeNextSpan(last?.content, { at, ...present });
    const rows = await transaction.query<RowToSeal[]>(sql.ROWS_TO_SEAL, toParameters(from, to, after ?? BEFORE_ALL));
    if (rows.length === 0 && !after && last && Date.parse(at) - Date.parse(last.content.at) < MAX_SILENCE_MS)
      return undefined;
    const entries = encodeEntries(rows.map((row) => this.toEntry(row)));
    const months = [...new Set(rows.map(({ month }) => month))].sort();
    const through = rows.length === ROWS_PER_SEAL ? toPosition(rows.at(-1)) : null;
    const summary = { rows: rows.length, entries: digestEntries(entries), months };
    const seal = await this.append(transaction, last, { at, from, to, through, ...summary, dropped: null });
    const latest = findLatestTime(rows);
    if (latest !== undefined) await transaction.query(sql.INSERT_ENTRIES, [seal.number, latest, entries]);
    return seal;
  }

  private toEntry({ id, micros, canonical }: RowToSeal): SealEntry {
    return { id, micros: BigInt(micros), mac: this.key.computeRowMac(canonical) };
  }

  private async readLastSeal(transaction: EntityManager): Promise<{ content: SealContent; mac: Buffer } | undefined> {
    const [seal] = await transaction.query<StoredSeal[]>(sql.LAST_SEAL);
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
    await transaction.query(sql.INSERT_SEAL, [number, text, this.key.computeSealMac(text)]);
    return content;
  }
}

/** Continues where the last seal stopped: within its span, or from its end to the present. */
function computeNextSpan(
  last: SealContent | undefined,
  present: EpochSnapshot,
): { from: EpochSnapshot; to: EpochSnapshot; after: Position | null } {
  if (!last) return { from: BEFORE_FIRST_SEAL, to: present, after: null };
  if (last.through) return { from: last.from, to: last.to, after: last.through };
  return { from: last.to, to: present, after: null };
}

async function readPresent(transaction: EntityManager): Promise<EpochSnapshot & { readonly at: string }> {
  const [row] = await transaction.query<{ epoch: number; snapshot: string; at: Date }[]>(sql.PRESENT);
  if (!row) throw new Error('audit_settings has no row');
  return { epoch: row.epoch, snapshot: row.snapshot, at: row.at.toISOString() };
}

function toParameters(from: EpochSnapshot, to: EpochSnapshot, after: Position): unknown[] {
  const [, xmax, inProgress = ''] = from.snapshot.split(':');
  const xids = inProgress.split(',').filter((xid) => xid !== '');
  const position = [after.epoch, after.xid, after.time, after.id];
  return [to.epoch, to.snapshot, from.epoch, xmax, xids, ...position, ROWS_PER_SEAL];
}

function toPosition(row: RowToSeal | undefined): Position | null {
  return row ? { epoch: row.epoch, xid: row.xid, time: row.time, id: row.id } : null;
}

function findLatestTime(rows: readonly RowToSeal[]): string | undefined {
  const latest = rows.reduce<RowToSeal | undefined>(
    (found, row) => (found && BigInt(found.micros) >= BigInt(row.micros) ? found : row),
    undefined,
  );
  return latest?.time;
}
