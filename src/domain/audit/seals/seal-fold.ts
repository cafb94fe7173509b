/**
 * Deletes the oldest seals once retention has dropped their rows, so that the chain does not grow without end. A fold is
 * a seal at the end of the chain with the number and the HMAC of the last deleted seal: `audit verify` begins there.
 * Invariants: a fold deletes what `audit verify` has no finding about, and nothing that an event refers to (decision 43).
 */
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { addDays } from '../../../foundation/common/clock.js';
import { Environment } from '../../../foundation/config/environment.js';
import { Log } from '../../../foundation/logging/log.js';
import { SealChain } from './seal-chain.js';
import { SealFindings } from './seal-findings.js';
import { SealWriter } from './seal-writer.js';
import { parseContent, SealKey, type Query, type SealKeys, type StoredSeal } from './seal.js';

const SEALS_PER_FOLD = 1_000;
const MAX_FOLDS_PER_RUN = 20;

/** An event and the position of the copy need the HMAC of their seal for a cursor. */
const OLDEST_SEALS = `SELECT number, content, mac FROM audit_seals
  WHERE number < LEAST((SELECT seal FROM event_position), (SELECT min(seal) FROM events),
    (SELECT min(number) FROM audit_seal_entries))
  ORDER BY number LIMIT $1`;
/** The function checks the retention and the rows again, because the role of the service may call it. */
const FOLD = 'SELECT audit_seals_fold() AS folded';

@Injectable()
export class SealFold {
  private readonly keys: SealKeys;
  private hasRefused = false;

  constructor(
    private readonly environment: Environment,
    private readonly dataSource: DataSource,
    private readonly seals: SealWriter,
    private readonly log: Log,
  ) {
    const key = new SealKey(environment.auditSealKey ?? environment.masterKey);
    this.keys = new Map([[key.id, key]]);
  }

  /** @returns the number of deleted seals; 0 while another replica holds the lock */
  async foldSeals(now: Date, size = SEALS_PER_FOLD): Promise<number> {
    const keepFrom = addDays(now, -this.environment.auditRetentionDays);
    let total = 0;
    for (let folds = 0; folds < MAX_FOLDS_PER_RUN; folds += 1) {
      const folded = await this.dataSource.transaction((transaction) => this.foldOldest(transaction, keepFrom, size));
      if (folded === 0) break;
      total += folded;
    }
    return total;
  }

  private async foldOldest(transaction: EntityManager, keepFrom: Date, size: number): Promise<number> {
    if (!(await this.seals.lockChain(transaction))) return 0;
    const oldest = await transaction.query<StoredSeal[]>(OLDEST_SEALS, [size]);
    const isReady = (seal: StoredSeal) => Date.parse(parseContent(seal)?.at ?? '') < keepFrom.getTime();
    if (oldest.length < size || !oldest.every(isReady)) return 0;
    const chain = await this.verifyChain(transaction, Number(oldest.at(-1)?.number));
    if (!chain) return 0;
    await this.seals.appendRecord(transaction, { dropped: null, folded: chain.head });
    const [row] = await transaction.query<{ folded: number }[]>(FOLD);
    return row?.folded ?? 0;
  }

  /** Seals under a former key, which the service does not have, are verified by their place in the chain alone. */
  private async verifyChain(transaction: EntityManager, until: number): Promise<SealChain | undefined> {
    const query: Query = <Row extends object>(text: string, values?: unknown[]) =>
      transaction.query<Row[]>(text, values);
    const findings = new SealFindings();
    const chain = new SealChain(query, this.keys, findings);
    for await (const rows of chain.readBatches(until)) if (rows.length > 0) return undefined;
    const finding = findings.open.find(({ kind }) => kind !== 'other_key');
    if (finding && !this.hasRefused) this.log.warn('audit_fold_refused', { reason: finding.name });
    this.hasRefused = finding !== undefined;
    return finding ? undefined : chain;
  }
}
