/**
 * `audit verify` follows the chain of seals from its beginning, or its newest fold, compares the rows of the audit log
 * with it, and reports every difference. test/domain/audit/seals.spec.ts has a test for each kind of finding.
 */
import { AUDIT_EVENT_NAMES } from '../../../foundation/common/security-events.js';
import { isSameDigest } from '../../../foundation/crypto/secret.js';
import { COUNTED_EVENTS } from '../counted-refusals.js';
import { SealChain, type ListedRow } from './seal-chain.js';
import { SealFindings, MAX_FINDINGS, type AcknowledgedFinding, type SealFinding } from './seal-findings.js';
import {
  BEFORE_FIRST_SEAL,
  CANONICAL_ROW,
  IS_SEALED,
  MICROS,
  UTC_TIME,
  type EpochSnapshot,
  type Query,
  type SealContent,
  type SealKeys,
} from './seal.js';

interface FoundRow {
  readonly id: string;
  readonly micros: string;
  readonly event: string;
  readonly time: string;
  readonly time_ms: string;
  readonly recorded_ms: string;
  readonly canonical: string;
}

const TIME = `${UTC_TIME} AS time`;

/**
 * The lock prevents retention from dropping a month that the snapshot contains. JIT is off because it would compile the
 * forced plans, which look expensive.
 */
export const BEGIN_VERIFICATION = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
  LOCK TABLE audit_events IN ACCESS SHARE MODE;
  SET LOCAL TimeZone = 'UTC'; SET LOCAL jit = off`;

/**
 * Forces a lookup by primary key for each listed row, because each page of seals would otherwise scan the whole log.
 */
const FORCE_LOOKUPS =
  'SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL enable_seqscan = off';
const ALLOW_SCANS = 'SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = on; SET LOCAL enable_seqscan = on';

const MONTHS = `SELECT to_char(starts, 'YYYY-MM') AS name FROM audit_events_months()`;

const LISTED_ROWS = `SELECT logged.id, listed.micros::text, logged.event, ${TIME},
    (extract(epoch FROM logged.time) * 1000)::text AS time_ms,
    (extract(epoch FROM logged.recorded_at) * 1000)::text AS recorded_ms, ${CANONICAL_ROW} AS canonical
  FROM unnest($1::uuid[], $2::bigint[]) AS listed (id, micros) JOIN audit_events AS logged
    ON logged.id = listed.id AND logged.time = CASE WHEN listed.micros = 9223372036854775807 THEN 'infinity'
      ELSE 'epoch'::timestamptz + listed.micros * interval '1 microsecond' END`;

const BY_ID = `SELECT logged.id, ${TIME} FROM audit_events AS logged WHERE logged.id = ANY ($1::uuid[])`;

/**
 * Selects up to `$3` rows that no seal lists although they are in a sealed span, and up to `$3` rows of transactions
 * that have not begun yet.
 */
const UNLISTED_ROWS = `WITH listed AS MATERIALIZED (
    SELECT encode(substring(entries FROM 56 * n + 1 FOR 16), 'hex')::uuid AS id,
      ('x' || encode(substring(entries FROM 56 * n + 17 FOR 8), 'hex'))::bit(64)::bigint AS micros
    FROM audit_seal_entries JOIN audit_seals USING (number), generate_series(0, length(entries) / 56 - 1) AS n)
  (SELECT logged.id, ${TIME}, ${CANONICAL_ROW} AS canonical FROM audit_events AS logged
   WHERE ${IS_SEALED} AND NOT EXISTS (SELECT FROM listed WHERE listed.id = logged.id AND listed.micros = ${MICROS})
   LIMIT $3)
  UNION ALL
  (SELECT logged.id, ${TIME}, ${CANONICAL_ROW} AS canonical FROM audit_events AS logged, audit_settings
   WHERE logged.epoch > audit_settings.epoch
     OR (logged.epoch = audit_settings.epoch AND logged.xid >= pg_snapshot_xmax(pg_current_snapshot()))
   LIMIT $3)`;

const WAITING = `SELECT count(*)::integer AS waiting FROM audit_events AS logged WHERE NOT (${IS_SEALED})`;

export interface Verification {
  readonly seals: number;
  /** The number of the last seal that a fold deleted; 0 without a fold. */
  readonly folded: number;
  /** Rows that the seals since then list, including dropped ones. */
  readonly rows: number;
  readonly dropped_rows: number;
  readonly dropped_months: readonly string[];
  /** Moment up to which all rows are sealed. */
  readonly sealed_until: string | null;
  readonly waiting: number;
  readonly findings: readonly SealFinding[];
  readonly acknowledged: readonly AcknowledgedFinding[];
}

const CLOCK_TOLERANCE_MS = 5 * 60_000;
const MAX_DATE_MS = 8.64e15;
/** Events whose rows are recorded late, when a window of refusals closes or a batch of last uses is written. */
const LATE_EVENTS: ReadonlySet<string> = new Set([
  ...COUNTED_EVENTS,
  ...AUDIT_EVENT_NAMES.filter((name) => name.endsWith('.first_used')),
]);

export class SealVerifier {
  private readonly findings = new SealFindings();
  private readonly chain: SealChain;
  private readonly months = new Set<string>();
  private readonly movedRows = new Set<string>();
  /** The number of rows of each missing month that retention did not drop. */
  private readonly missingByMonth = new Map<string, number>();
  private droppedRows = 0;

  constructor(
    private readonly query: Query,
    private readonly keys: SealKeys,
  ) {
    this.chain = new SealChain(query, keys, this.findings);
  }

  /** @param checkpoint a line of `audit checkpoint` that was kept outside of the database */
  async verifyLog(checkpoint?: string): Promise<Verification> {
    await this.findings.readAcknowledgements(this.query, this.keys);
    for (const { name } of await this.query<{ name: string }>(MONTHS)) this.months.add(name);
    await this.query(FORCE_LOOKUPS);
    for await (const listed of this.chain.readBatches()) await this.verifyRows(listed);
    await this.query(ALLOW_SCANS);
    if (checkpoint !== undefined) await this.chain.compareWithCheckpoint(checkpoint);
    for (const [month, count] of this.missingByMonth) {
      const what = `The month ${month} is missing, with ${count} rows, and retention did not drop it.`;
      this.findings.report('month_missing', { what, state: `${month} ${count}` });
    }
    const { last, rows, droppedMonths } = this.chain;
    const sealed = (last?.through ? last.from : last?.to) ?? BEFORE_FIRST_SEAL;
    await this.findInserted(sealed);
    const [row] = await this.query<{ waiting: number }>(WAITING, [sealed.epoch, sealed.snapshot]);
    return {
      seals: last?.number ?? 0,
      folded: this.chain.fold.through,
      rows,
      dropped_rows: this.droppedRows + this.chain.droppedRows,
      dropped_months: droppedMonths,
      sealed_until: sealed.at,
      waiting: row?.waiting ?? 0,
      findings: this.findings.open,
      acknowledged: this.findings.acknowledged,
    };
  }

  private async verifyRows(listed: readonly ListedRow[]): Promise<void> {
    const keys = [listed.map(({ id }) => id), listed.map(({ micros }) => String(micros))];
    const found = await this.query<FoundRow>(LISTED_ROWS, keys);
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

  private verifyRow({ id, mac, seal }: ListedRow, row: FoundRow): void {
    const at = { seal: seal.number, row: id, time: row.time, state: row.canonical };
    const found = this.keys.get(seal.key)?.computeRowMac(row.canonical);
    if (!found || !isSameDigest(found, mac)) {
      this.findings.report('changed', { ...at, what: 'The row was changed after it was sealed.' });
      return;
    }
    const recorded = Number(row.recorded_ms);
    const isLate = Number(row.time_ms) + CLOCK_TOLERANCE_MS < recorded && !LATE_EVENTS.has(row.event);
    if (recorded + CLOCK_TOLERANCE_MS < toBeginning(seal)) {
      const what = 'The row was inserted after the rows of its time were sealed.';
      this.findings.report('inserted', { ...at, what });
    } else if (isLate) {
      const when = new Date(recorded).toISOString();
      const how = 'by hand, or by a replica whose clock was behind';
      const what = `The row was recorded at ${when}, long after its time: ${how}.`;
      this.findings.report('inserted', { ...at, what });
    }
  }

  private async reportAbsent(absent: readonly ListedRow[]): Promise<void> {
    const elsewhere = await this.query<{ id: string; time: string }>(BY_ID, [absent.map(({ id }) => id)]);
    const times = new Map(elsewhere.map(({ id, time }) => [id, time]));
    for (const { id, micros, seal } of absent) {
      const [time, month] = [times.get(id), toMonth(micros)];
      const at = { seal: seal.number, row: id };
      const sealed = toDate(micros).toISOString();
      if (time !== undefined) {
        this.movedRows.add(id);
        const what = `The row was moved: its time was ${sealed} when it was sealed.`;
        this.findings.report('reordered', { ...at, time, what, state: time });
      } else if (this.months.has(month)) {
        const what = 'The row was deleted after it was sealed.';
        this.findings.report('missing', { ...at, time: sealed, what, state: sealed });
      } else this.missingByMonth.set(month, (this.missingByMonth.get(month) ?? 0) + 1);
    }
  }

  private async findInserted({ epoch, snapshot }: EpochSnapshot): Promise<void> {
    // The limit leaves room for the acknowledged rows, so that they do not hide new ones.
    const values = [epoch, snapshot, MAX_FINDINGS + this.findings.acknowledgedCount];
    const rows = await this.query<{ id: string; time: string; canonical: string }>(UNLISTED_ROWS, values);
    for (const { id, time, canonical } of rows) {
      if (this.movedRows.has(id)) continue;
      const what = 'No seal lists the row, although the rows around it are sealed.';
      this.findings.report('inserted', { row: id, time, what, state: canonical });
    }
  }
}

/** The moment from which a seal's rows were recorded. Its end is earlier than its beginning when the clock was set back. */
function toBeginning({ from, at }: SealContent): number {
  return from.at === null ? -Infinity : Math.min(Date.parse(from.at), Date.parse(at));
}

/** Converts a time that a Date cannot represent, such as infinity, to the latest possible one. */
function toDate(micros: bigint): Date {
  return new Date(Math.min(Number(micros / 1_000n), MAX_DATE_MS));
}

function toMonth(micros: bigint): string {
  return toDate(micros).toISOString().slice(0, 7);
}
