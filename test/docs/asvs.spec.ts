import { readdirSync, readFileSync } from 'node:fs';
import { fromRoot } from '../support/from-root.js';

/** The levels of the rows of ASVS 5.0.0, one digit a row: section 1.1 has two rows of level 2. */
const LEVELS = `1.1 22 1.2 1111122223 1.3 112222222223 1.4 222 1.5 123 2.1 122 2.2 112 2.3 12223 2.4 23 3.1 3 3.2 113
  3.3 12223 3.4 11222233 3.5 11122333 3.6 3 3.7 22333 4.1 12233 4.2 23333 4.3 22 4.4 1222 5.1 2 5.2 112333 5.3 113
  5.4 222 6.1 122 6.2 111111112222 6.3 11223333 6.4 112233 6.5 22222333 6.6 2223 6.7 33 6.8 2222 7.1 222 7.2 1111
  7.3 22 7.4 11222 7.5 223 7.6 22 8.1 1233 8.2 1123 8.3 133 8.4 23 9.1 111 9.2 1222 10.1 22 10.2 223 10.3 22223
  10.4 1111122222233333 10.5 22222 10.6 22 10.7 222 11.1 2233 11.2 22233 11.3 11233 11.4 1222 11.5 23 11.6 23 11.7 33
  12.1 12233 12.2 11 12.3 22223 13.1 2333 13.2 222223 13.3 2233 13.4 1222233 14.1 22 14.2 12223333 14.3 122 15.1 12233
  15.2 12233 15.3 1222222 15.4 3333 16.1 2 16.2 22222 16.3 2222 16.4 222 16.5 2223 17.1 23 17.2 22223333 17.3 22`;

const levels = new Map(
  [...LEVELS.matchAll(/([\d.]+) (\d+)/g)].flatMap(([, section = '', digits = '']) =>
    [...digits].map((level, index): [string, string] => [`${section}.${index + 1}`, level]),
  ),
);
const ids = [...levels.keys()];

const page = readFileSync(fromRoot('docs/asvs.md'), 'utf8');
const rows = [...page.matchAll(/^\| (\d.*) \|$/gm)].map(([, cells = '']) => {
  const [row = '', level = '', verdict = '', how = '', test = ''] = cells.split(' | ').map((cell) => cell.trim());
  return { row, level, verdict, how, test };
});

/** @returns the ids of a row, which may stand for a range: `3.3.1-3.3.4` */
function listIds(row: string): string[] {
  const [first = '', last = first] = row.split('-');
  return ids.slice(ids.indexOf(first), ids.indexOf(last) + 1);
}

describe('docs/asvs.md', () => {
  const specs = readdirSync(fromRoot('test'), { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.spec.ts'),
  );

  it('has each of the 345 rows once, in order, and with its level', () => {
    expect(ids).toHaveLength(345);
    expect(rows.flatMap(({ row }) => listIds(row))).toEqual(ids);
    const wrong = rows.filter(({ row, level }) => {
      const own = listIds(row).map((id) => levels.get(id));
      return (
        level !==
        [...new Set(own)]
          .sort()
          .filter((_, index, { length }) => index % (length - 1 || 1) === 0)
          .join('–')
      );
    });
    expect(wrong).toEqual([]);
  });

  it('gives each row a verdict and a reason', () => {
    expect(rows.filter(({ verdict }) => !/^(pass|operator|part|not|n\.a\.)$/.test(verdict))).toEqual([]);
    expect(rows.filter(({ how }) => how === '')).toEqual([]);
  });

  it('names tests that exist', () => {
    const named = rows.filter(({ test }) => test !== '');
    expect(named.length).toBeGreaterThan(150);
    const missing = named.filter(({ test }) => {
      const [, path = '', words = ''] = /^`([^`]+)` (.+)$/.exec(test) ?? [];
      const files = specs.filter((file) => `/${file}`.replace(/(\.process)?\.spec\.ts$/, '').endsWith(`/${path}`));
      return files.length !== 1 || words === '' || !readFileSync(fromRoot(`test/${files[0]!}`), 'utf8').includes(words);
    });
    expect(missing).toEqual([]);
  });
});
