import { isSameDigest } from '../crypto/secret.js';
import { AUDIT_EVENT_NAMES } from './audit-event.js';
import { COUNTED_EVENTS } from './counted-refusals.js';
import { Findings, MAX_FINDINGS, type Finding } from './findings.js';
import { SealChain, type ListedRow, type Query, type SealKeys } from './seal-chain.js';
import { NOTHING, type Reach } from './seal.js';
import * as sql from './verify-statements.js';

export interface Verification {
  readonly seals: number;
  /** Rows that the seals list, including rows that retention dropped with their month. */
  readonly rows: number;
  readonly dropped_rows: number;
  readonly dropped_months: readonly string[];
  /** The moment up to which all rows are sealed. */
  readonly sealed_until: string | null;
  /** Rows that are not sealed yet. */
  readonly waiting: number;
  readonly findings: readonly Finding[];
}

const ROW_BATCH_SIZE = 2_000;
const CLOCK_TOLERANCE_MS = 5 * 60_000;
const MAX_DATE_MS = 8.64e15;
/** Recorded later than they happened: when a window closes, or when last uses are written in a batch. */
const LATE_EVENTS: ReadonlySet<string> = new Set([
  ...COUNTED_EVENTS,
  ...AUDIT_EVENT_NAMES.filter((name) => name.endsWith('.first_used')),
]);

/** Compares the audit log with its seals, and reports every difference. */
export class AuditVerifier {
  private readonly findings = new Findings();
  private readonly chain: SealChain;
  private readonly months = new Set<string>();
  private readonly movedRows = new Set<string>();
  /** The number of missing rows of each month that is missing, although retention did not drop it. */
  private readonly missingByMonth = new Map<string, number>();
  private droppedRows = 0;

  constructor(
    private readonly query: Query,
    private readonly keys: SealKeys,
  ) {
    this.chain = new SealChain(query, keys, this.findings);
  }

  /** @param checkpoint a line of `audit checkpoint`, stored outside the database */
  async verify(checkpoint?: string): Promise<Verification> {
    for (const { name } of await this.query<{ name: string }>(sql.MONTHS)) this.months.add(name);
    await this.query(sql.PLAN_LOOKUPS);
    for await (const listed of this.chain.pages())
      for (let done = 0; done < listed.length; done += ROW_BATCH_SIZE)
        await this.verifyRows(listed.slice(done, done + ROW_BATCH_SIZE));
    await this.query(sql.PLAN_SCANS);
    if (checkpoint !== undefined) await this.chain.compareWith(checkpoint);
    for (const [month, count] of this.missingByMonth) {
      const what = `The month ${month} is missing, with ${count} rows, and retention did not drop it.`;
      this.findings.report('month_missing', { what });
    }
    const { last, rows, droppedMonths } = this.chain;
    const reach = (last?.through ? last.from : last?.to) ?? NOTHING;
    await this.findInserted(reach);
    const [row] = await this.query<{ waiting: number }>(sql.WAITING, [reach.epoch, reach.snapshot]);
    return {
      seals: last?.number ?? 0,
      rows,
      dropped_rows: this.droppedRows + this.chain.droppedRows,
      dropped_months: droppedMonths,
      sealed_until: reach.at,
      waiting: row?.waiting ?? 0,
      findings: this.findings.all,
    };
  }

  private async verifyRows(listed: readonly ListedRow[]): Promise<void> {
    const keys = [listed.map(({ id }) => id), listed.map(({ micros }) => String(micros))];
    const found = await this.query<sql.FoundRow>(sql.LISTED_ROWS, keys);
    const byKey = new Map(found.map((row) => [`${row.id} ${row.micros}`, row]));
    const absent: ListedRow[] = [];
    for (const entry of listed) {
      const row = byKey.get(`${entry.id} ${entry.micros}`);
      if (row) this.verifyRow(entry, row);
      else if (this.chain.isDropped(toMonth(entry.micros), entry.seal)) this.droppedRows += 1;
      else absent.push(entry);
    }
    if (absent.length > 0) await this.reportAbsent(absent);
  }

  private verifyRow({ id, mac, seal }: ListedRow, row: sql.FoundRow): void {
    const at = { seal: seal.number, row: id, time: row.time };
    const found = this.keys.get(seal.key)?.computeRowMac(row.canonical);
    if (!found || !isSameDigest(found, mac)) {
      this.findings.report('changed', { ...at, what: 'The row was changed after it was sealed.' });
      return;
    }
    if (row.xid === '0') return;
    const recorded = row.recorded_ms === null ? -Infinity : Number(row.recorded_ms);
    const isLate = Number(row.time_ms) + CLOCK_TOLERANCE_MS < recorded && !LATE_EVENTS.has(row.event);
    if (seal.from.at !== null && recorded + CLOCK_TOLERANCE_MS < Date.parse(seal.from.at)) {
      const what = 'The row was inserted after the rows of its time were sealed.';
      this.findings.report('inserted', { ...at, what });
    } else if (isLate) {
      const when = new Date(recorded).toISOString();
      const what = `The row was recorded at ${when}, long after its time: by hand, or by a replica whose clock was behind.`;
      this.findings.report('inserted', { ...at, what });
    }
  }

  private async reportAbsent(absent: readonly ListedRow[]): Promise<void> {
    const elsewhere = await this.query<{ id: string; time: string }>(sql.BY_ID, [absent.map(({ id }) => id)]);
    const times = new Map(elsewhere.map(({ id, time }) => [id, time]));
    for (const { id, micros, seal } of absent) {
      const [time, month] = [times.get(id), toMonth(micros)];
      const at = { seal: seal.number, row: id };
      const sealed = toDate(micros).toISOString();
      if (time !== undefined) {
        this.movedRows.add(id);
        const what = `The row was moved: its time was ${sealed} when it was sealed.`;
        this.findings.report('reordered', { ...at, time, what });
      } else if (this.months.has(month)) {
        this.findings.report('missing', { ...at, time: sealed, what: 'The row was deleted after it was sealed.' });
      } else this.missingByMonth.set(month, (this.missingByMonth.get(month) ?? 0) + 1);
    }
  }

  private async findInserted({ epoch, snapshot }: Reach): Promise<void> {
    const values = [epoch, snapshot, MAX_FINDINGS];
    for (const { id, time } of await this.query<{ id: string; time: string }>(sql.UNLISTED_ROWS, values)) {
      if (this.movedRows.has(id)) continue;
      const what = 'No seal lists the row, although the rows around it are sealed.';
      this.findings.report('inserted', { row: id, time, what });
    }
  }
}

/** A time that a Date cannot represent, such as infinity, becomes the latest that it can. */
function toDate(micros: bigint): Date {
  return new Date(Math.min(Number(micros / 1_000n), MAX_DATE_MS));
}

function toMonth(micros: bigint): string {
  return toDate(micros).toISOString().slice(0, 7);
}
