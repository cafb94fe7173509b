/**
 * `audit verify` follows the chain of seals from its beginning, or its newest fold, compares the rows of the audit log
 * with it, and reports every difference. test/domain/audit/seals.spec.ts has a test for each kind of finding.
 */
import { AUDIT_EVENT_NAMES, type AuditEventName } from '../../../foundation/common/security-events.js';
import { computeDigest, isSameDigest } from '../../../foundation/crypto/secret.js';
import { COUNTED_EVENTS } from '../counted-refusals.js';
import {
  BEFORE_FIRST_SEAL,
  CANONICAL_ROW,
  IS_SEALED,
  MICROS,
  type EpochSnapshot,
  decodeEntries,
  MAX_FINDINGS,
  digestEntries,
  parseCheckpoint,
  parseContent,
  RECORDS,
  type Acknowledgement,
  type Fold,
  type SealContent,
  type SealEntry,
  type SealKey,
  type StoredSeal,
} from './seal.js';

type FindingKind =
  | 'changed'
  | 'missing'
  | 'inserted'
  | 'reordered'
  | 'month_missing'
  | 'seal_changed'
  | 'seal_missing'
  | 'other_key'
  | 'checkpoint';

export interface Finding {
  /** The same in every run, until what was found changes. */
  readonly name: string;
  readonly kind: FindingKind;
  readonly seal: number | null;
  readonly row: string | null;
  readonly time: string | null;
  readonly what: string;
}

/** A finding that an operator has looked at. */
interface AcknowledgedFinding extends Finding {
  readonly acknowledged_by: string;
  readonly acknowledged_at: string;
  readonly reason: string;
}

type Report = Partial<Omit<Finding, 'name'>> & {
  readonly what: string;
  /** The present state of what was tampered with: another change of it is another finding. */
  readonly state: string;
};

const NAME_LENGTH = 12;

export class Findings {
  readonly open: Finding[] = [];
  readonly acknowledged: AcknowledgedFinding[] = [];
  private acknowledgements: ReadonlyMap<string, Acknowledgement> = new Map();

  /** Ignores rows without a valid HMAC: an attacker who can write to the database cannot acknowledge without the key. */
  async readAcknowledgements(query: Query, keys: SealKeys): Promise<void> {
    const all = await query<Acknowledgement & { mac: string }>(ACKNOWLEDGEMENTS, [ACKNOWLEDGED]);
    const valid = all.filter((each) => {
      const mac = Buffer.from(each.mac, 'hex');
      return [...keys.values()].some((key) => isSameDigest(key.computeAcknowledgementMac(each), mac));
    });
    this.acknowledgements = new Map(valid.map((each) => [each.finding, each]));
  }

  get acknowledgedCount(): number {
    return this.acknowledgements.size;
  }

  report(kind: FindingKind, { seal = null, row = null, time = null, what, state }: Report): void {
    const digest = computeDigest(JSON.stringify([kind, row ?? seal, state])).toString('hex');
    const name = `${kind}-${digest.slice(0, NAME_LENGTH)}`;
    const finding = { name, kind, seal, row, time, what };
    const known = this.acknowledgements.get(name);
    if (known) {
      const { operator, at, reason } = known;
      this.acknowledged.push({ ...finding, acknowledged_by: operator, acknowledged_at: at, reason });
    } else if (this.open.length < MAX_FINDINGS) this.open.push(finding);
  }
}

export type SealKeys = ReadonlyMap<string, SealKey>;

/** Runs SQL in one read-only transaction, so that rows and seals belong to one snapshot. */
export type Query = <Row extends object>(text: string, values?: unknown[]) => Promise<Row[]>;

interface ListedRow extends SealEntry {
  readonly seal: SealContent;
}

interface FoundRow {
  readonly id: string;
  readonly micros: string;
  readonly event: string;
  readonly time: string;
  readonly time_ms: string;
  readonly recorded_ms: string;
  readonly canonical: string;
}

const UTC_TIME = `to_char(logged.time, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
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

export const ACKNOWLEDGED: AuditEventName = 'audit.finding.acknowledged';

const MONTHS = `SELECT to_char(starts, 'YYYY-MM') AS name FROM audit_events_months()`;

const LISTED_ROWS = `SELECT logged.id, listed.micros::text, logged.event, ${TIME},
    (extract(epoch FROM logged.time) * 1000)::text AS time_ms,
    (extract(epoch FROM logged.recorded_at) * 1000)::text AS recorded_ms, ${CANONICAL_ROW} AS canonical
  FROM unnest($1::uuid[], $2::bigint[]) AS listed (id, micros) JOIN audit_events AS logged
    ON logged.id = listed.id AND logged.time = CASE WHEN listed.micros = 9223372036854775807 THEN 'infinity'
      ELSE 'epoch'::timestamptz + listed.micros * interval '1 microsecond' END`;

const ACKNOWLEDGEMENTS = `SELECT subject AS finding, details ->> 'operator' AS operator, details ->> 'reason' AS reason,
    details ->> 'mac' AS mac, ${UTC_TIME} AS at FROM audit_events AS logged
  WHERE event = $1 AND num_nonnulls(subject, details ->> 'operator', details ->> 'reason', details ->> 'mac') = 4
  ORDER BY logged.time DESC`;

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

const SEALS = `SELECT number, content, mac, entries FROM audit_seals LEFT JOIN audit_seal_entries USING (number)
  WHERE number > $1 AND number <= $2 ORDER BY number LIMIT $3`;
const SEAL = 'SELECT number, content, mac FROM audit_seals WHERE number = $1';
const SEALS_PER_PAGE = 20;

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
  readonly findings: readonly Finding[];
  readonly acknowledged: readonly AcknowledgedFinding[];
}

const MIN_ROW_BATCH_SIZE = 2_000;
const CLOCK_TOLERANCE_MS = 5 * 60_000;
const MAX_DATE_MS = 8.64e15;
/** Events whose rows are recorded late, when a window of refusals closes or a batch of last uses is written. */
const LATE_EVENTS: ReadonlySet<string> = new Set([
  ...COUNTED_EVENTS,
  ...AUDIT_EVENT_NAMES.filter((name) => name.endsWith('.first_used')),
]);

const NO_FOLD: Fold = { through: 0, mac: '' };

/** Reports each seal that is missing, changed or out of order. */
export class SealChain {
  /** The newest fold, after which the chain begins. */
  fold = NO_FOLD;
  /** The number and the HMAC of the last seal that was read. */
  head = NO_FOLD;
  private isFoldProven = false;
  last: SealContent | undefined;
  rows = 0;
  droppedRows = 0;
  /** The number of the seal that records the drop of each month. */
  private readonly drops = new Map<string, number>();

  constructor(
    private readonly query: Query,
    private readonly keys: SealKeys,
    private readonly findings: Findings,
  ) {}

  get droppedMonths(): string[] {
    return [...this.drops.keys()].sort();
  }

  /** Whether retention dropped a month after this seal was made. */
  isDropped(month: string, { number }: SealContent): boolean {
    return (this.drops.get(month) ?? 0) > number;
  }

  /**
   * Reads the listed rows in batches, so that memory does not grow with the log.
   * @param until the number of the last seal to read
   */
  async *readBatches(until = Number.MAX_SAFE_INTEGER): AsyncGenerator<ListedRow[]> {
    await this.readRecords();
    let number = 0;
    let batch: ListedRow[] = [];
    for (;;) {
      const page = await this.query<StoredSeal & { entries: Buffer | null }>(SEALS, [number, until, SEALS_PER_PAGE]);
      for (const stored of page) {
        number = Number(stored.number);
        const seal = this.verifyNext(stored);
        if (seal) batch.push(...this.readRows((this.last = seal), stored.entries));
        if (batch.length < MIN_ROW_BATCH_SIZE) continue;
        yield batch;
        batch = [];
      }
      if (page.length < SEALS_PER_PAGE) break;
    }
    yield batch;
  }

  async compareWithCheckpoint(line: string): Promise<void> {
    const { number, mac } = parseCheckpoint(line);
    const [stored] = await this.query<StoredSeal>(SEAL, [number]);
    const found = number === this.fold.through ? Buffer.from(this.fold.mac, 'hex') : stored?.mac;
    if (found && isSameDigest(found, mac)) return;
    const state = found?.toString('hex') ?? 'missing';
    this.findings.report('checkpoint', { seal: number, what: this.describeMismatch(number, state), state });
  }

  private describeMismatch(number: number, state: string): string {
    if (state !== 'missing')
      return `Seal ${number} is not the one of the checkpoint: the chain up to it was rewritten.`;
    const { through } = this.fold;
    if (number < through)
      return `Seal ${number} of the checkpoint was folded, which proves nothing. Give one of seal ${through} or later.`;
    return (
      `Seal ${number} of the checkpoint is missing: the log was rewritten, or the database was restored from an ` +
      'older backup.'
    );
  }

  /** Believes a fold under a key that was not given as long as there is no other. Its own seal is a finding. */
  private async readRecords(): Promise<void> {
    for (const stored of await this.query<StoredSeal>(RECORDS)) {
      const seal = parseContent(stored);
      const key = seal && this.keys.get(seal.key);
      if (!seal || key?.hasSealed(stored) === false) continue;
      if (key && typeof seal.dropped === 'string') this.drops.set(seal.dropped, seal.number);
      if (!isFold(seal.folded) || (this.isFoldProven && !key)) continue;
      this.isFoldProven = key !== undefined;
      this.fold = seal.folded;
    }
    this.head = this.fold;
  }

  private verifyNext(stored: StoredSeal): SealContent | undefined {
    // The seal after a fold is older than it, and a former key never follows a later one.
    if (this.head === this.fold && !this.isFoldProven && this.keys.has(parseContent(stored)?.key ?? ''))
      this.fold = this.head = NO_FOLD;
    const [found, mac] = [Number(stored.number), stored.mac.toString('hex')];
    if (found <= this.fold.through) {
      const what = `Seal ${found} was added by hand: the seals up to ${this.fold.through} were folded.`;
      this.findings.report('seal_changed', { seal: found, what, state: `${mac} ${stored.content}` });
      return undefined;
    }
    const { through: last, mac: previous } = this.head;
    this.head = { through: found, mac };
    return this.verifySeal(stored, this.isNext(last + 1, found) ? previous : undefined);
  }

  private isNext(expected: number, found: number): boolean {
    if (found === expected) return true;
    const which = found - expected === 1 ? `Seal ${expected} is` : `Seals ${expected} to ${found - 1} are`;
    this.findings.report('seal_missing', { seal: expected, what: `${which} missing.`, state: String(found) });
    return false;
  }

  /** @param previous HMAC of the preceding seal; undefined when that seal is missing */
  private verifySeal(stored: StoredSeal, previous: string | undefined): SealContent | undefined {
    const seal = Number(stored.number);
    const content = parseContent(stored);
    const state = `${stored.mac.toString('hex')} ${stored.content}`;
    const key = content && this.keys.get(content.key);
    const isFollowing = content?.number === seal && (previous === undefined || content.previous === previous);
    if (content && !key && isFollowing) {
      const what = `Seal ${seal} names a key that was not given: ${content.key}.`;
      this.findings.report('other_key', { seal, what, state });
      return undefined;
    }
    if (key?.hasSealed(stored) === false || !content) {
      this.findings.report('seal_changed', { seal, what: `Seal ${seal} was changed.`, state });
      return undefined;
    }
    if (isFollowing) return content;
    this.findings.report('seal_changed', { seal, what: `Seal ${seal} does not follow the seal before it.`, state });
    return undefined;
  }

  private readRows(seal: SealContent, entries: Buffer | null): ListedRow[] {
    const { number, rows, months } = seal;
    this.rows += rows;
    if (rows === 0 && entries === null) return [];
    if (entries === null && months.every((month) => this.isDropped(month, seal))) {
      this.droppedRows += rows;
      return [];
    }
    if (entries !== null && digestEntries(entries) === seal.entries)
      return decodeEntries(entries).map((entry) => ({ ...entry, seal }));
    const what = `The list of rows of seal ${number} ${entries ? 'was changed' : 'is missing'}.`;
    const state = entries ? digestEntries(entries) : 'missing';
    this.findings.report('seal_changed', { seal: number, what, state });
    return [];
  }
}

/** The content of a seal under a key that was not given may be anything. */
function isFold(folded: Fold | undefined): folded is Fold {
  return Number.isSafeInteger(folded?.through) && typeof folded?.mac === 'string';
}

export class SealVerifier {
  private readonly findings = new Findings();
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
