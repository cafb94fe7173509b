import { isSameDigest } from '../crypto/secret.js';
import { parseCheckpoint } from './checkpoint.js';
import type { Findings } from './findings.js';
import {
  decodeEntries,
  digestOfEntries,
  type SealContent,
  type SealEntry,
  type SealKey,
  type StoredSeal,
} from './seal.js';
import * as sql from './verify-statements.js';

/** By their ids. */
export type SealKeys = ReadonlyMap<string, SealKey>;

/** Runs SQL in one read-only transaction, so that all that is compared is of one moment. */
export type Query = <Row extends object>(text: string, values?: unknown[]) => Promise<Row[]>;

/** A row as its seal lists it. */
export interface ListedRow extends SealEntry {
  readonly seal: SealContent;
}

const SEALS_PER_PAGE = 200;

/** Follows the chain of seals from its beginning, and reports where it does not hold. */
export class SealChain {
  /** The last seal that holds. */
  last: SealContent | undefined;
  rows = 0;
  droppedRows = 0;
  /** For each month that retention dropped, the number of the seal that says so. */
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

  /** The rows that the seals list, page by page. */
  async *pages(): AsyncGenerator<ListedRow[]> {
    await this.readDrops();
    let [number, previous] = [0, ''];
    for (;;) {
      const page = await this.query<StoredSeal & { entries: Buffer | null }>(sql.SEALS, [number, SEALS_PER_PAGE]);
      const listed: ListedRow[] = [];
      for (const stored of page) {
        const found = Number(stored.number);
        const isNext = this.isNext(number + 1, found);
        const seal = this.verified(stored, isNext ? previous : undefined);
        [number, previous] = [found, stored.mac.toString('hex')];
        if (seal) listed.push(...this.rowsOf((this.last = seal), stored.entries));
      }
      yield listed;
      if (page.length < SEALS_PER_PAGE) return;
    }
  }

  /** @param line of `audit checkpoint`, kept elsewhere */
  async compareWith(line: string): Promise<void> {
    const { number, mac } = parseCheckpoint(line);
    const [seal] = await this.query<StoredSeal>(sql.SEAL, [number]);
    if (seal && isSameDigest(seal.mac, mac)) return;
    const what = seal
      ? `Seal ${number} is not the one of the checkpoint: what stood before it was rewritten.`
      : `Seal ${number} of the checkpoint is missing: the log was rewritten, or the database is of an earlier moment.`;
    this.findings.report('checkpoint', { seal: number, what });
  }

  private async readDrops(): Promise<void> {
    for (const stored of await this.query<StoredSeal>(sql.DROPS)) {
      const seal = contentOf(stored);
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
  private verified(stored: StoredSeal, previous: string | undefined): SealContent | undefined {
    const seal = Number(stored.number);
    const content = contentOf(stored);
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

  private rowsOf(seal: SealContent, entries: Buffer | null): ListedRow[] {
    const { number, rows, months } = seal;
    this.rows += rows;
    if (rows === 0) return [];
    if (entries === null && months.every((month) => this.isDropped(month, seal))) {
      this.droppedRows += rows;
      return [];
    }
    if (entries !== null && digestOfEntries(entries) === seal.entries)
      return decodeEntries(entries).map((entry) => ({ ...entry, seal }));
    const what = `The list of rows of seal ${number} ${entries ? 'was changed' : 'is missing'}.`;
    this.findings.report('seal_changed', { seal: number, what });
    return [];
  }
}

function contentOf({ content }: StoredSeal): SealContent | undefined {
  try {
    return JSON.parse(content) as SealContent;
  } catch {
    return undefined;
  }
}
