import { createId } from '../../../src/foundation/common/ids.js';
import { RowsById } from '../../../src/foundation/database/database.js';

describe('RowsById', () => {
  let table: Map<string, { id: string; text: string }>;
  let statements: (readonly string[])[];
  let failure: Error | undefined;
  let rows: RowsById<{ id: string; text: string }>;

  beforeEach(() => {
    table = new Map();
    statements = [];
    failure = undefined;
    rows = new RowsById(async (ids) => {
      statements.push(ids);
      await Promise.resolve();
      if (failure) throw failure;
      return [...table.values()].filter(({ id }) => ids.includes(id)).reverse();
    });
  });

  const insert = (text: string): string => {
    const id = createId();
    table.set(id, { id, text });
    return id;
  };

  it('reads the rows of concurrent callers in one batch, and returns to each its own row', async () => {
    const [first, second, missing] = [insert('first'), insert('second'), createId()];
    const found = await Promise.all([first, missing, second, first].map((id) => rows.find(id)));
    expect(found.map((row) => row?.text)).toEqual(['first', undefined, 'second', 'first']);
    expect(statements).toEqual([[first, missing, second, first]]);
  });

  it('reads in one batch also for callers in different callbacks of one event loop turn', async () => {
    const ids = [insert('first'), insert('second')];
    await Promise.all(
      ids.map(async (id) => {
        await new Promise(setImmediate);
        return rows.find(id);
      }),
    );
    expect(statements).toEqual([ids]);
  });

  it('finds an id in any letter case, and sends no statement for an invalid id', async () => {
    const id = insert('row');
    expect(await rows.find(id.toUpperCase())).toEqual({ id, text: 'row' });
    for (const text of ['', 'row', `${id}0`, '*']) expect(await rows.find(text)).toBeUndefined();
    expect(statements).toHaveLength(1);
  });

  it('reads again for a later caller', async () => {
    const id = insert('before');
    expect((await rows.find(id))?.text).toBe('before');
    table.set(id, { id, text: 'after' });
    expect((await rows.find(id))?.text).toBe('after');
    table.delete(id);
    expect(await rows.find(id)).toBeUndefined();
  });

  it('reads again for a caller that comes while a statement runs', async () => {
    const id = insert('before');
    let answer: () => void = () => undefined;
    const slow = new RowsById(async (ids) => {
      const seen = ids.map((wanted) => ({ id: wanted, text: table.get(wanted)?.text }));
      await new Promise<void>((resolve) => (answer = resolve));
      return seen;
    });
    const early = slow.find(id);
    await new Promise(setImmediate);
    table.set(id, { id, text: 'after' });
    const late = slow.find(id);
    answer();
    expect((await early)?.text).toBe('before');
    await new Promise(setImmediate);
    answer();
    expect((await late)?.text).toBe('after');
  });

  it('fails for every caller of a failed batch, and works for the next', async () => {
    const [first, second] = [insert('first'), insert('second')];
    failure = new Error('the connection broke');
    const results = await Promise.allSettled([rows.find(first), rows.find(second), rows.find('no id')]);
    expect(results).toEqual([
      { status: 'rejected', reason: failure },
      { status: 'rejected', reason: failure },
      { status: 'fulfilled', value: undefined },
    ]);
    failure = undefined;
    expect((await rows.find(first))?.text).toBe('first');
  });

  it('splits a large batch into several statements', async () => {
    const ids = Array.from({ length: 250 }, (_, i) => insert(String(i)));
    const found = await Promise.all(ids.map((id) => rows.find(id)));
    expect(found.map((row) => row?.id)).toEqual(ids);
    expect(statements.map(({ length }) => length)).toEqual([100, 100, 50]);
  });
});
