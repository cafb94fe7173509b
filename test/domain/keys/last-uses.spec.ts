import { LastUses } from '../../../src/domain/keys/last-uses.js';
import type { Database } from '../../../src/foundation/database/database.js';
import type { Log } from '../../../src/foundation/logging/log.js';

const AT = new Date('2026-11-21T09:00:00Z');
const LATER = new Date('2026-11-21T09:01:00Z');
const OUTAGE = new Error('Connection terminated unexpectedly');

type Written = [
  ids: string[],
  times: Date[],
  services: (string | null)[],
  areReported: boolean[],
  eventIds: string[],
  scopes: (string | null)[],
  ofPrevious: boolean[],
];

/** A database with a prepared outcome for each of the first statements; it accepts all later ones. */
function after(...failures: (Error | undefined)[]) {
  const written: Written[] = [];
  const warned: unknown[] = [];
  const rows = (_statement: unknown, values: Written): Promise<object[]> => {
    const failure = failures.shift();
    if (failure) return Promise.reject(failure);
    written.push(values);
    return Promise.resolve([]);
  };
  const log = { warn: (_message: string, { count }: { count: number }) => warned.push(count) };
  const uses = new LastUses({ rows } as unknown as Database, { name: 'x', text: '' }, log as unknown as Log);
  return { uses, written, warned };
}

describe('the last uses', () => {
  it('are written every 30 seconds', async () => {
    const { uses, written } = after();
    const timer = { unref: (): unknown => timer } as NodeJS.Timeout;
    const timed = jest.spyOn(globalThis, 'setInterval').mockReturnValueOnce(timer);
    uses.start();
    const [write, ms] = timed.mock.calls[0]!;
    timed.mockRestore();
    expect(ms).toBe(30_000);
    uses.addUse('a', { at: AT, service: null });
    write();
    await new Promise(setImmediate);
    expect(written).toHaveLength(1);
  });

  it('are written in batches of 1,000, ordered by id', async () => {
    const { uses, written } = after();
    const ids = Array.from({ length: 2_500 }, (_, index) => String(index).padStart(4, '0'));
    for (const id of [...ids].reverse()) uses.addUse(id, { at: AT, service: null });
    await uses.flush();
    expect(written.map(([batch]) => batch.length)).toEqual([1_000, 1_000, 500]);
    expect(written.flatMap(([batch]) => batch)).toEqual(ids);
    await uses.flush();
    expect(written).toHaveLength(3);
  });

  it('of the two keys of a rotation are written apart, also after an outage', async () => {
    const { uses, written } = after(OUTAGE);
    uses.addUse('a', { at: LATER, service: 'ocr' });
    uses.addUse('a', { at: AT, service: 'ocr', isPrevious: true });
    uses.addReportedUse('a', 'recipes', AT, undefined, true);
    await uses.flush();
    await uses.flush();
    expect(written.map(([ids, times, , reported, , , previous]) => [ids, times, reported, previous])).toEqual([
      [['a'], [LATER], [false], [false]],
      [['a'], [AT], [false], [true]],
      [['a'], [AT], [true], [true]],
    ]);
  });

  it('are kept through an outage, unless a newer use is known', async () => {
    const { uses, written, warned } = after(OUTAGE);
    uses.addUse('a', { at: AT, service: null });
    uses.addUse('b', { at: AT, service: 'ocr' }, 'read');
    uses.addUse('b', { at: AT, service: 'ocr' }, 'write');
    const flushed = uses.flush();
    uses.addUse('a', { at: LATER, service: 'recipes' });
    uses.addUse('b', { at: LATER, service: 'ocr' }, 'write');
    await flushed;
    expect(written).toEqual([]);
    expect(warned).toEqual([2]);
    await uses.flush();
    const [[ids, times, services, , , scopes]] = written as [Written];
    expect({ ids, times, services }).toEqual({ ids: ['a', 'b'], times: [LATER, LATER], services: ['recipes', 'ocr'] });
    expect(scopes.map((json) => json && (JSON.parse(json) as unknown))).toEqual([
      null,
      { read: AT.toISOString(), write: LATER.toISOString() },
    ]);
  });

  it('that services report neither replace what this replica saw nor what another service reports', async () => {
    const { uses, written } = after(OUTAGE);
    uses.addUse('a', { at: AT, service: 'ocr' });
    uses.addReportedUse('a', 'recipes', LATER);
    uses.addReportedUse('b', 'ocr', AT);
    uses.addReportedUse('b', 'recipes', LATER);
    await uses.flush();
    await uses.flush();
    const [seen, reported] = written as [Written, Written];
    expect(seen).toEqual([['a'], [AT], ['ocr'], [false], expect.anything(), [null], [false]]);
    const [ids, , , areReported] = reported;
    expect({ ids, areReported }).toEqual({ ids: ['a', 'b', 'b'], areReported: [true, true, true] });
    expect(reported[2].sort()).toEqual(['ocr', 'recipes', 'recipes']);
  });

  it('are recorded for every other service while one reports ids at random', async () => {
    const { uses, written } = after();
    for (let index = 0; index < 150_000; index++) uses.addReportedUse(`random-${index}`, 'ocr', AT);
    uses.addReportedUse('of-recipes', 'recipes', AT);
    uses.addUse('seen', { at: AT, service: null });
    await uses.flush();
    const ids = written.flatMap(([batch]) => batch);
    expect(ids).toEqual(expect.arrayContaining(['of-recipes', 'seen']));
    expect(ids.length).toBeLessThan(25_000);
  });

  it('of one service are bounded in ids and scopes together, also through an outage', async () => {
    const { uses, written } = after(OUTAGE);
    for (let index = 0; index < 20_000; index++)
      for (let scope = 0; scope < 5; scope++) uses.addReportedUse(`random-${index}`, 'ocr', AT, `scope-${scope}`);
    for (let flush = 0; flush < 3; flush++) await uses.flush();
    const scopes = written
      .flatMap(([, , , , , asked]) => asked)
      .map((json) => Object.keys(JSON.parse(json ?? '{}') as object));
    expect(scopes.length + scopes.flat().length).toBeLessThanOrEqual(20_000);
    expect(scopes[0]).toHaveLength(5);
  });

  it('of one service are written early when there are many of them, but not again and again during an outage', async () => {
    const { uses, written, warned } = after(OUTAGE);
    const report = async (from: number): Promise<void> => {
      for (let index = 0; index < 6_000; index++) uses.addReportedUse(`${from}-${index}`, 'ocr', AT);
      await new Promise(setImmediate);
    };
    await report(1);
    expect([written, warned]).toEqual([[], []]);
    await report(2);
    await report(3);
    expect([written, warned]).toEqual([[], [expect.any(Number)]]);
    await uses.flush();
    const before = written.length;
    await report(4);
    await report(5);
    expect(written.length).toBeGreaterThan(before);
  });

  it('of a new key are written at once when it is first used, once for many, but not again and again in an outage', async () => {
    const { uses, written, warned } = after(undefined, OUTAGE);
    const use = { at: AT, service: 'ocr' };
    await Promise.all([uses.writeUse('a', use), uses.writeUse('a', use), uses.writeUse('a', use)]);
    expect(written).toEqual([[['a'], [AT], ['ocr'], [false], expect.anything(), [null], [false]]]);
    for (let attempt = 0; attempt < 3; attempt++) await uses.writeUse('b', use);
    expect(warned).toEqual([1]);
    uses.addUse('b', use);
    await uses.flush();
    await uses.writeUse('c', use);
    expect(written.map(([ids]) => ids)).toEqual([['a'], ['b'], ['c']]);
  });

  it('are dropped when the database rejects them permanently, without blocking others', async () => {
    const { uses, written, warned } = after(new TypeError('a mistake of ours'));
    for (let index = 0; index < 1_001; index++) {
      uses.addUse(String(index).padStart(4, '0'), { at: AT, service: null });
    }
    await uses.flush();
    expect(warned).toEqual([1_000]);
    expect(written.map(([batch]) => batch)).toEqual([['1000']]);
    await uses.flush();
    expect(written).toHaveLength(1);
  });
});
