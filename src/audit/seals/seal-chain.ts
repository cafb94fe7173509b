import { isSameDigest } from '../../crypto/secret.js';
import {
  decodeEntries,
  digestEntries,
  parseCheckpoint,
  type SealContent,
  type SealEntry,
  type SealKey,
  type StoredSeal,
} from './seal.js';

export type FindingKind =
  | 'changed'
  | 'missing'
  | 'inserted'
  | 'reordered'
  | 'month_missing'
  | 'seal_changed'
  | 'seal_missing'
  | 'other_key'
  | 'checkpoint';

/** One difference between the audit log and its seals. */
export interface Finding {
  readonly kind: FindingKind;
  readonly seal: number | null;
  /** The id of the row of audit_events. */
  readonly row: string | null;
  readonly time: string | null;
  readonly what: string;
}

export const MAX_FINDINGS = 1_000;

/** Keeps the first {@link MAX_FINDINGS}. */
export class Findings {
  readonly all: Finding[] = [];

  report(kind: FindingKind, { seal = null, row = null, time = null, what }: Partial<Finding> & { what: string }): void {
    if (this.all.length < MAX_FINDINGS) this.all.push({ kind, seal, row, time, what });
  }
}

/** Seal keys by id. */
export type SealKeys = ReadonlyMap<string, SealKey>;

/** Runs SQL in one read-only transaction, so that rows and seals are of one snapshot. */
export type Query = <Row extends object>(text: string, values?: unknown[]) => Promise<Row[]>;

/** A row as its seal lists it. */
export interface ListedRow extends SealEntry {
  readonly seal: SealContent;
}

const DROPS = `SELECT number, content, mac FROM audit_seals WHERE content LIKE '%"dropped":"%' ORDER BY number`;

const SEALS = `SELECT number, content, mac, entries FROM audit_seals LEFT JOIN audit_seal_entries USING (number)
  WHERE number > $1 ORDER BY number LIMIT $2`;

const SEAL = 'SELECT number, content, mac FROM audit_seals WHERE number = $1';

const SEALS_PER_PAGE = 200;

/** Follows the chain of seals from its beginning, and reports each seal that is missing, changed or out of order. */
export class SealChain {
  /** The last valid seal. */
  last: SealContent | undefined;
  rows = 0;
  droppedRows = 0;
  /** For each month that retention dropped, the number of the seal that states it. */
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

  /** Yields the rows that the seals list, for one page of seals at a time. */
  async *readPages(): AsyncGenerator<ListedRow[]> {
    await this.readDrops();
    let [number, previous] = [0, ''];
    for (;;) {
      const page = await this.query<StoredSeal & { entries: Buffer | null }>(SEALS, [number, SEALS_PER_PAGE]);
      const listed: ListedRow[] = [];
      for (const stored of page) {
        const found = Number(stored.number);
        const isNext = this.isNext(number + 1, found);
        const seal = this.verifySeal(stored, isNext ? previous : undefined);
        [number, previous] = [found, stored.mac.toString('hex')];
        if (seal) listed.push(...this.readRows((this.last = seal), stored.entries));
      }
      yield listed;
      if (page.length < SEALS_PER_PAGE) return;
    }
  }

  /** @param line of `audit checkpoint`, stored outside the database */
  async compareWithCheckpoint(line: string): Promise<void> {
    const { number, mac } = parseCheckpoint(line);
    const [seal] = await this.query<StoredSeal>(SEAL, [number]);
    if (seal && isSameDigest(seal.mac, mac)) return;
    const what = seal
      ? `Seal ${number} is not the one of the checkpoint: the chain up to it was rewritten.`
      : `Seal ${number} of the checkpoint is missing: the log was rewritten, or the database was restored from an older backup.`;
    this.findings.report('checkpoint', { seal: number, what });
  }

  private async readDrops(): Promise<void> {
    for (const stored of await this.query<StoredSeal>(DROPS)) {
      const seal = parseContent(stored);
      if (typeof seal?.dropped === 'string' && this.keys.get(seal.key)?.hasSealed(stored))
        this.drops.set(seal.dropped, seal.number);
    }
  }

  private isNext(expected: number, found: number): boolean {
    if (found === expected) return true;
    const which = found - expected === 1 ? `Seal ${expected} is` : `Seals ${expected} to ${found - 1} are`;
    this.findings.report('seal_missing', { seal: expected, what: `${which} missing.` });
    return false;
  }

  /** @param previous the HMAC of the seal before; undefined when that seal is missing */
  private verifySeal(stored: StoredSeal, previous: string | undefined): SealContent | undefined {
    const seal = Number(stored.number);
    const content = parseContent(stored);
    const key = content && this.keys.get(content.key);
    if (content && !key) {
      this.findings.report('other_key', { seal, what: `Seal ${seal} names a key that was not given: ${content.key}.` });
      return undefined;
    }
    if (!key?.hasSealed(stored)) {
      this.findings.report('seal_changed', { seal, what: `Seal ${seal} was changed.` });
      return undefined;
    }
    if (content?.number === seal && (previous === undefined || content.previous === previous)) return content;
    this.findings.report('seal_changed', { seal, what: `Seal ${seal} does not follow the seal before it.` });
    return undefined;
  }

  private readRows(seal: SealContent, entries: Buffer | null): ListedRow[] {
    const { number, rows, months } = seal;
    this.rows += rows;
    if (rows === 0) return [];
    if (entries === null && months.every((month) => this.isDropped(month, seal))) {
      this.droppedRows += rows;
      return [];
    }
    if (entries !== null && digestEntries(entries) === seal.entries)
      return decodeEntries(entries).map((entry) => ({ ...entry, seal }));
    const what = `The list of rows of seal ${number} ${entries ? 'was changed' : 'is missing'}.`;
    this.findings.report('seal_changed', { seal: number, what });
    return [];
  }
}

function parseContent({ content }: StoredSeal): SealContent | undefined {
  try {
    return JSON.parse(content) as SealContent;
  } catch {
    return undefined;
  }
}
