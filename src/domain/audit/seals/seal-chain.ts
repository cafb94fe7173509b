/** Reads the seals in order, from the beginning or the newest fold, and reports each that breaks the chain. */
import { isSameDigest } from '../../../foundation/crypto/secret.js';
import type { SealFindings } from './seal-findings.js';
import {
  decodeEntries,
  digestEntries,
  parseCheckpoint,
  parseContent,
  RECORDS,
  type Fold,
  type Query,
  type SealContent,
  type SealEntry,
  type SealKeys,
  type StoredSeal,
} from './seal.js';

export interface ListedRow extends SealEntry {
  readonly seal: SealContent;
}

const SEALS = `SELECT number, content, mac, entries FROM audit_seals LEFT JOIN audit_seal_entries USING (number)
  WHERE number > $1 AND number <= $2 ORDER BY number LIMIT $3`;
const SEAL = 'SELECT number, content, mac FROM audit_seals WHERE number = $1';
const SEALS_PER_PAGE = 20;
const MIN_ROW_BATCH_SIZE = 2_000;

const NO_FOLD: Fold = { through: 0, mac: '' };

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
    private readonly findings: SealFindings,
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

  /**
   * Accepts a fold under a key that was not given only while no fold is under a given one. The seal of such a fold is
   * reported as a finding.
   */
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
    // The seals that a fold left were written before it. So a fold under a former key that was not given, beside a seal
    // under a given key, is forged.
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
