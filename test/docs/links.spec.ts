import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fromRoot } from '../support/from-root.js';

const ROOT = fromRoot('.');
const PAGES = [
  ...readdirSync(ROOT).filter((name) => name.endsWith('.md')),
  ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];
const FENCED = /^```[^]*?^```/gm;

/** The anchors of a page's headings, as GitHub makes them. */
function listAnchors(path: string): string[] {
  const headings = readFileSync(path, 'utf8')
    .replaceAll(FENCED, '')
    .matchAll(/^#+ (.+)$/gm);
  return [...headings].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

function isReachable(page: string, link: string): boolean {
  const [file = '', anchor] = link.split('#');
  const target = file === '' ? join(ROOT, page) : join(ROOT, dirname(page), file);
  return existsSync(target) && (anchor === undefined || listAnchors(target).includes(anchor));
}

describe('the links of the documents', () => {
  it.each(PAGES)('of %s lead to existing files and headings', (page) => {
    const text = readFileSync(join(ROOT, page), 'utf8').replaceAll(FENCED, '');
    const links = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map((match) => match[1]!);
    const relative = links.filter((link) => !/^https?:/.test(link));
    expect(relative.filter((link) => !isReachable(page, link))).toEqual([]);
  });

  it('docs/decisions/README.md lists every decision under its title', () => {
    const list = readFileSync(join(ROOT, 'docs/decisions/README.md'), 'utf8');
    const records = PAGES.filter((page) => /\/\d{4}-/.test(page));
    const missing = records.filter((page) => {
      const title = /^# \d+\. (.+)$/m.exec(readFileSync(join(ROOT, page), 'utf8'))?.[1] ?? '';
      return !list.includes(`[${title}](${page.split('/').at(-1)!})`);
    });
    expect(missing).toEqual([]);
  });

  it('docs/decisions numbers its records from 1, without a gap', () => {
    const records = PAGES.filter((page) => /\/\d{4}-/.test(page)).sort();
    const numbers = records.map((page) => Number(/^# (\d+)\./.exec(readFileSync(join(ROOT, page), 'utf8'))?.[1]));
    expect(numbers).toEqual(records.map((_, index) => index + 1));
    expect(records.map((page) => Number(page.split('/').at(-1)?.slice(0, 4)))).toEqual(numbers);
  });
});
