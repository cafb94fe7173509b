import { createId } from '../../src/common/ids.js';
import { RowsById } from '../../src/database/rows-by-id.js';

describe('rows by their id', () => {
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

  it('are read with one statement for all who ask at once, and each gets its own row', async () => {
    const [first, second, missing] = [insert('first'), insert('second'), createId()];
    const found = await Promise.all([first, missing, second, first].map((id) => rows.find(id)));
    expect(found.map((row) => row?.text)).toEqual(['first', undefined, 'second', 'first']);
    expect(statements).toEqual([[first, missing, second, first]]);
  });

  it('are read with one statement also for those who ask in different callbacks of one round', async () => {
    const ids = [insert('first'), insert('second')];
    await Promise.all(
      ids.map(async (id) => {
        await new Promise(setImmediate);
        return rows.find(id);
      }),
    );
    expect(statements).toEqual([ids]);
  });

  it('are found however the id is spelt, and no statement is sent for what is no id', async () => {
    const id = insert('row');
    expect(await rows.find(id.toUpperCase())).toEqual({ id, text: 'row' });
    for (const text of ['', 'row', `${id}0`, '*']) expect(await rows.find(text)).toBeUndefined();
    expect(statements).toHaveLength(1);
  });

  it('are read anew by who asks later', async () => {
    const id = insert('before');
    expect((await rows.find(id))?.text).toBe('before');
    table.set(id, { id, text: 'after' });
    expect((await rows.find(id))?.text).toBe('after');
    table.delete(id);
    expect(await rows.find(id)).toBeUndefined();
  });

  it('that are asked for while a statement is under way are not in it', async () => {
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

  it('cannot be read by any of those who asked when their statement fails, and can by the next', async () => {
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

  it('are read by several statements when very many ask at once', async () => {
    const ids = Array.from({ length: 250 }, (_, i) => insert(String(i)));
    const found = await Promise.all(ids.map((id) => rows.find(id)));
    expect(found.map((row) => row?.id)).toEqual(ids);
    expect(statements.map(({ length }) => length)).toEqual([100, 100, 50]);
  });
});
