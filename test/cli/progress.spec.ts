import { Progress } from '../../src/cli/output.js';

function show(isTTY: boolean, total: number | undefined, ...steps: [done: number, lines: number][]): string[] {
  const written: string[] = [];
  const write = (text: string | Uint8Array): boolean => written.push(String(text)) > 0;
  const progress = new Progress(total, { isTTY, write });
  for (const [done, lines] of steps) progress.show(done, lines);
  progress.clear();
  return written;
}

describe('the progress of a long command', () => {
  it('is a bar on a terminal, which is removed at the end', () => {
    expect(show(true, 200, [0, 0], [100, 1_000], [200, 2_000])).toEqual([
      `\r[${'-'.repeat(30)}]   0 % 0 lines`,
      `\r[${'#'.repeat(15)}${'-'.repeat(15)}]  50 % 1000 lines`,
      `\r[${'#'.repeat(30)}] 100 % 2000 lines`,
      '\r\u001b[K',
    ]);
  });

  it('is a count of lines on a terminal when the size is not known', () => {
    expect(show(true, undefined, [100, 1_000])[0]).toBe('\r1000 lines');
  });

  it('is a line for each 10,000 lines elsewhere', () => {
    const steps = Array.from({ length: 25 }, (_, index): [number, number] => [index, (index + 1) * 1_000]);
    expect(show(false, 25, ...steps)).toEqual(['… 10000 lines so far\n', '… 20000 lines so far\n']);
  });
});
