// What rooms need of PostgreSQL beside repositories: hot statements on TypeORM's own pool, reads by primary key in
// batches (decision 36), jobs that only one replica runs at a time, and the clock that all replicas share.

import { Injectable } from '@nestjs/common';
import DataLoader from 'dataloader';
import { DataSource, type EntityManager } from 'typeorm';
import { isId } from '../common/ids.js';
import { LOCKS, tryLock } from './locks.js';
import type { RequestPool } from './request-pool.js';

const PURGE_BATCH_SIZE = 1_000;

/** A hot statement: SQL by hand that each connection prepares once under its name. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

type Age = `${number} ${'hours' | 'days'}`;

/** Another replica holds the lock and is doing this work. */
export class LockNotAcquiredError extends Error {
  override readonly name = 'LockNotAcquiredError';
}

@Injectable()
export class Database {
  constructor(private readonly dataSource: DataSource) {}

  /** A stalled connection keeps its slot until PostgreSQL answers the statement whose caller got a 503. */
  get pool() {
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
   * Runs one batch of a job that only one replica may run at a time.
   * @throws {LockNotAcquiredError} at once, while another replica runs a batch
   */
  async runAlone<Result>(lock: number, work: (transaction: EntityManager) => Promise<Result>): Promise<Result> {
    return this.dataSource.transaction(async (transaction) => {
      if (!(await tryLock(transaction, lock))) throw new LockNotAcquiredError();
      return work(transaction);
    });
  }

  /**
   * Deletes expired rows with {@link Database.runAlone}, in batches that hold no lock for long.
   * @param deletion SQL that deletes at most `$2` rows that expired before `$1`
   * @param before a moment, or an age by the clock of the database
   * @returns the number of rows deleted
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

/** The clock of PostgreSQL, which all replicas share. */
@Injectable()
export class DatabaseClock {
  constructor(private readonly dataSource: DataSource) {}

  /** @param transaction reads on the connection of this transaction; otherwise on one of the pool */
  async now(transaction?: EntityManager): Promise<Date> {
    const [row] = await (transaction ?? this.dataSource).query<{ now: Date }[]>('SELECT clock_timestamp() AS now');
    if (!row) throw new Error('PostgreSQL returned no time');
    return row.now;
  }
}

/** For `WHERE id = …`. The subquery hides the number of ids from the planner, so that it keeps one generic plan. */
export const ANY_GIVEN_ID = 'ANY ((SELECT $1::uuid[])::uuid[])';

/** A larger batch is split into parallel statements, so that a failing one affects fewer requests. */
const BATCH_SIZE = 100;

/**
 * Combines calls of one round of the event loop into one read. Nothing is cached.
 * @param read returns the row of each key, or undefined, in order; if it fails, every call of the batch fails
 */
export function batchReads<Key, Row>(read: (keys: readonly Key[]) => Promise<(Row | undefined)[]>) {
  const loader = new DataLoader(read, { cache: false, batchScheduleFn: setImmediate, maxBatchSize: BATCH_SIZE });
  return (key: Key): Promise<Row | undefined> => loader.load(key);
}

/** Reads rows by primary key in batches, as {@link batchReads} does. */
export class RowsById<Row extends { readonly id: string }> {
  private readonly load: (id: string) => Promise<Row | undefined>;

  /** @param read returns the rows that exist, in any order */
  constructor(read: (ids: readonly string[]) => Promise<Row[]>) {
    this.load = batchReads(async (ids) => sortByIds(ids, await read(ids)));
  }

  /** @returns undefined when the row does not exist, or the id is not a UUID */
  async find(id: string): Promise<Row | undefined> {
    return isId(id) ? this.load(id.toLowerCase()) : undefined;
  }
}

/**
 * Combines calls of one round of the event loop into one read, which starts after all of them and so is fresh for each.
 * Later callers start another read, so that one that stalls does not delay them.
 */
export function shareReads<Value>(read: () => Promise<Value>): () => Promise<Value> {
  const loader = new DataLoader<true, Value>(async (callers) => Array<Value>(callers.length).fill(await read()), {
    cache: false,
    batchScheduleFn: setImmediate,
  });
  return () => loader.load(true);
}

function sortByIds<Row extends { readonly id: string }>(ids: readonly string[], rows: Row[]): (Row | undefined)[] {
  const known = new Map(rows.map((row) => [row.id, row]));
  return ids.map((id) => known.get(id));
}
