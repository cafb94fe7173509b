import DataLoader from 'dataloader';
import { isId } from '../common/ids.js';

/**
 * For `WHERE id = …`. Behind the subquery the planner does not see how many ids there are: it keeps one plan, where it
 * would otherwise plan a statement of a few ids anew each time.
 */
export const ANY_GIVEN_ID = 'ANY ((SELECT $1::uuid[])::uuid[])';

/** More ids than these are read by several statements, side by side: one that fails takes no more requests along. */
const BATCH_SIZE = 100;

/**
 * Reads rows by primary key, in batches: requests that ask in the same round of the event loop share one statement,
 * sent after the last of them has asked. Nothing is kept: whoever asks later is told what holds then.
 */
export class RowsById<Row extends { readonly id: string }> {
  private readonly loader: DataLoader<string, Row | undefined>;

  /** @param read returns the rows that exist, in any order; when it fails, so does everyone who shares it */
  constructor(read: (ids: readonly string[]) => Promise<Row[]>) {
    this.loader = new DataLoader(async (ids) => inOrder(ids, await read(ids)), {
      cache: false,
      batchScheduleFn: setImmediate,
      maxBatchSize: BATCH_SIZE,
    });
  }

  /** @returns undefined when there is no such row, also for an id that is no UUID */
  async find(id: string): Promise<Row | undefined> {
    return isId(id) ? this.loader.load(id.toLowerCase()) : undefined;
  }
}

function inOrder<Row extends { readonly id: string }>(ids: readonly string[], rows: Row[]): (Row | undefined)[] {
  const known = new Map(rows.map((row) => [row.id, row]));
  return ids.map((id) => known.get(id));
}
