import { setImmediate as turn } from 'node:timers/promises';
import { Gathering } from '../../src/throttling/gathering.js';

describe('Steps of one key that come together', () => {
  const sizes: number[] = [];
  let total = 0;
  const gathering = new Gathering(async (_key, size) => {
    sizes.push(size);
    await turn();
    return (total += size);
  });

  beforeEach(() => {
    sizes.length = 0;
    total = 0;
  });

  it('are taken as one while another is under way, and each gets a count of its own', async () => {
    const first = gathering.join('a');
    await Promise.resolve();
    const all = await Promise.all([first, ...Array.from({ length: 9 }, () => gathering.join('a'))]);
    expect(sizes).toEqual([1, 9]);
    expect(all.map(({ answer, behind }) => answer - behind)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  });

  it('do not wait for those of another key', async () => {
    await Promise.all([gathering.join('a'), gathering.join('b')]);
    expect(sizes).toEqual([1, 1]);
  });

  it('fail together, and the next one is tried anew', async () => {
    let isBroken = true;
    let steps = 0;
    const broken = new Gathering(async () => {
      steps += 1;
      await turn();
      if (isBroken) throw new Error('no store');
      return 1;
    });
    const first = broken.join('a');
    await Promise.resolve();
    const outcomes = await Promise.allSettled([first, broken.join('a'), broken.join('a')]);
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect(steps).toBe(1);
    isBroken = false;
    await expect(broken.join('a')).resolves.toEqual({ answer: 1, behind: 0 });
  });
});
