import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { LOCKS, tryLock } from './locks.js';
import type { RequestPool } from './request-pool.js';

const PURGE_BATCH_SIZE = 1_000;

/** A hot statement: written by hand, and prepared once on each connection under its name. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

export type Age = `${number} ${'hours' | 'days'}`;

/** Another replica holds the lock, and does the same work. */
export class LockNotAcquiredError extends Error {
  override readonly name = 'LockNotAcquiredError';
}

export interface PoolLoad {
  readonly total: number;
  readonly idle: number;
  readonly waiting: number;
  /** Connections that keep their slot until PostgreSQL answers a statement whose caller got a 503. */
  readonly stalled: number;
  readonly limit: number;
}

/** Sends hot statements directly to TypeORM's pool, and runs the batches of jobs under an advisory lock. */
@Injectable()
export class Database {
  constructor(private readonly dataSource: DataSource) {}

  /** The load of the pool. */
  get pool(): PoolLoad {
    const { totalCount = 0, idleCount = 0, waitingCount = 0, stalledCount = 0, options } = this.master ?? {};
    const limit = options?.max ?? 0;
    return { total: totalCount, idle: idleCount, waiting: waitingCount, stalled: stalledCount, limit };
  }

  /** @returns the rows; columns are named as in the database */
  async rows<Row extends object>(statement: Statement, values: unknown[]): Promise<Row[]> {
    const pool = this.master;
    if (!pool) throw new Error('DataSource is not initialized');
    return (await pool.query<Row>({ name: statement.name, text: statement.text, values })).rows;
  }

  async row<Row extends object>(statement: Statement, values: unknown[]): Promise<Row | undefined> {
    return (await this.rows<Row>(statement, values))[0];
  }

  /**
   * Runs one batch of a job in a transaction. Only the replica that gets the advisory lock works; the others do not wait.
   * @throws {LockNotAcquiredError}
   */
  async runAlone<Result>(lock: number, work: (transaction: EntityManager) => Promise<Result>): Promise<Result> {
    return this.dataSource.transaction(async (transaction) => {
      if (!(await tryLock(transaction, lock))) throw new LockNotAcquiredError();
      return work(transaction);
    });
  }

  /**
   * Deletes rows in small batches, so that no lock is held for long, in one replica at a time; see {@link Database.runAlone}.
   * @param deletion deletes at most `$2` rows that expired before `$1`
   * @param before a moment, or an age by the clock of the database
   * @returns the number of rows deleted
   * @throws {LockNotAcquiredError}
   */
  async purge(deletion: string, before: Date | Age): Promise<number> {
    let total = 0;
    for (let deleted = PURGE_BATCH_SIZE; deleted === PURGE_BATCH_SIZE; total += deleted) {
      deleted = await this.runAlone(LOCKS.purge, async (transaction) => {
        const [, count] = await transaction.query<[unknown, number]>(deletion, [before, PURGE_BATCH_SIZE]);
        return count;
      });
    }
    return total;
  }

  private get master(): RequestPool | undefined {
    return (this.dataSource.driver as unknown as { master: RequestPool | undefined }).master;
  }
}
