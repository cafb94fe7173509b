import DataLoader from 'dataloader';
import { isId } from '../common/ids.js';

/**
 * For `WHERE id = …`. The subquery hides the number of ids from the planner, which therefore keeps one generic plan
 * instead of planning each statement of a few ids.
 */
export const ANY_GIVEN_ID = 'ANY ((SELECT $1::uuid[])::uuid[])';

/** A larger batch is split into parallel statements, so that a failing one affects fewer requests. */
const BATCH_SIZE = 100;

/**
 * Reads rows by primary key, in batches: calls in the same round of the event loop share one statement, sent at its
 * end. Nothing is cached: a later call reads again.
 */
export class RowsById<Row extends { readonly id: string }> {
  private readonly loader: DataLoader<string, Row | undefined>;

  /** @param read returns the rows that exist, in any order; when it fails, every call of the batch fails */
  constructor(read: (ids: readonly string[]) => Promise<Row[]>) {
    this.loader = new DataLoader(async (ids) => sortByIds(ids, await read(ids)), {
      cache: false,
      batchScheduleFn: setImmediate,
      maxBatchSize: BATCH_SIZE,
    });
  }

  /** @returns undefined when the row does not exist, or the id is not a UUID */
  async find(id: string): Promise<Row | undefined> {
    return isId(id) ? this.loader.load(id.toLowerCase()) : undefined;
  }
}

function sortByIds<Row extends { readonly id: string }>(ids: readonly string[], rows: Row[]): (Row | undefined)[] {
  const known = new Map(rows.map((row) => [row.id, row]));
  return ids.map((id) => known.get(id));
}
