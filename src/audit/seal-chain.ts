import { isSameDigest } from '../crypto/secret.js';
import { parseCheckpoint } from './checkpoint.js';
import type { Findings } from './findings.js';
import {
  decodeEntries,
  digestEntries,
  type SealContent,
  type SealEntry,
  type SealKey,
  type StoredSeal,
} from './seal.js';
import * as sql from './verify-statements.js';

/** Keys by their ids. */
export type SealKeys = ReadonlyMap<string, SealKey>;

/** Runs SQL in one read-only transaction, so that everything is compared in one snapshot. */
export type Query = <Row extends object>(text: string, values?: unknown[]) => Promise<Row[]>;

/** A row as its seal lists it. */
export interface ListedRow extends SealEntry {
  readonly seal: SealContent;
}

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
        const seal = this.verify(stored, isNext ? previous : undefined);
        [number, previous] = [found, stored.mac.toString('hex')];
        if (seal) listed.push(...this.readRows((this.last = seal), stored.entries));
      }
      yield listed;
      if (page.length < SEALS_PER_PAGE) return;
    }
  }

  /** @param line of `audit checkpoint`, stored outside the database */
  async compareWith(line: string): Promise<void> {
    const { number, mac } = parseCheckpoint(line);
    const [seal] = await this.query<StoredSeal>(sql.SEAL, [number]);
    if (seal && isSameDigest(seal.mac, mac)) return;
    const what = seal
      ? `Seal ${number} is not the one of the checkpoint: the chain up to it was rewritten.`
      : `Seal ${number} of the checkpoint is missing: the log was rewritten, or the database was restored from an older backup.`;
    this.findings.report('checkpoint', { seal: number, what });
  }

  private async readDrops(): Promise<void> {
    for (const stored of await this.query<StoredSeal>(sql.DROPS)) {
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
  private verify(stored: StoredSeal, previous: string | undefined): SealContent | undefined {
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
