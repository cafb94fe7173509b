import { mannWhitney } from '../../fuzz/mann-whitney.js';

describe('the Mann-Whitney test', () => {
  it('agrees with SciPy on samples with and without ties', () => {
    // scipy.stats.mannwhitneyu(a, b, method='asymptotic')
    const plain = mannWhitney([1.1, 2.2, 3.3, 4.4, 5.5], [2.5, 3.5, 4.5, 5.6, 6.6, 7.7]);
    expect(plain.u).toBe(6);
    expect(plain.p).toBeCloseTo(0.120691, 5);
    const tied = mannWhitney([1, 2, 2, 3, 3, 3], [2, 3, 3, 4, 4, 5]);
    expect(tied.u).toBe(7);
    expect(tied.p).toBeCloseTo(0.078403, 5);
  });

  it('distinguishes only samples that differ', () => {
    const low = Array.from({ length: 1_000 }, (_, i) => i % 97);
    const shifted = low.map((value) => value + 10);
    expect(mannWhitney(low, shifted).p).toBeLessThan(1e-6);
    expect(mannWhitney(low, [...low]).p).toBe(1);
    expect(mannWhitney([1, 1], [1, 1])).toMatchObject({ z: 0, p: 1, larger: 0.5 });
  });
});
