import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { fromRoot } from '../support/from-root.js';

const MAX_COLUMNS = 129;
const MAX_PICTURES_BYTES = 300_000;
const FOLDERS = [
  'docs',
  'deploy',
  'examples',
  'clients/conformance',
  'clients/go',
  'clients/node',
  'clients/python',
  'clients/typescript',
];
const PAGES = [
  ...readdirSync(fromRoot('.')),
  ...FOLDERS.flatMap((folder) =>
    readdirSync(fromRoot(folder), { recursive: !folder.includes('/'), encoding: 'utf8' }).map(
      (name) => `${folder}/${name}`,
    ),
  ),
].filter((name) => name.endsWith('.md') && !/node_modules|\.venv/.test(name) && name !== 'CHANGELOG.md');
const FENCED = /^ *```[^]*?^ *```$/gm;
/** A line that cannot be broken: a single word, link or piece of code. */
const UNBREAKABLE = /^\s*(?:[-*] |\d+\. )?\(?(?:`[^`]+`|\[[^\]]+\]\S+|\S+)[^\s`]*$/;
/** What a page calls a file of this repository. Names with a variable part are not checked. */
const FILE =
  /(?<![\w./-])(?:src|test|tools|packages|bench|chaos|fuzz|deploy|clients|examples)\/[\w./-]*\.(?:ts|tsx|js|py|yml|yaml|json|sql|cfg)\b/g;

/** What a page calls a function, a class, a method or a property: a word in camel case. */
const CODE_NAME = /`([A-Za-z]\w*[a-z][A-Z]\w*(?:\.\w+)?)(?:\(\))?`/g;
const SOURCE = ['src', 'packages', 'tools', 'clients', 'test', 'chaos'].flatMap((folder) =>
  readdirSync(fromRoot(folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.tsx?$/.test(name) && !name.includes('node_modules'))
    .map((name) => readFileSync(fromRoot(`${folder}/${name}`), 'utf8')),
);
const WORDS = new Set(
  [...SOURCE, readFileSync(fromRoot('package.json'), 'utf8')].flatMap((text) => text.match(/\w+/g) ?? []),
);

describe.each(PAGES)('%s', (page) => {
  const text = readFileSync(fromRoot(page), 'utf8');

  it('has lines of at most 129 columns, outside of code', () => {
    const lines = text.replaceAll(FENCED, '').split('\n');
    expect(lines.filter((line) => line.length > MAX_COLUMNS && !UNBREAKABLE.test(line))).toEqual([]);
  });

  it('names files that exist', () => {
    const files = [...new Set(text.match(FILE) ?? [])];
    expect(files.filter((file) => !existsSync(fromRoot(file)))).toEqual([]);
  });
});

describe.each(PAGES.filter((page) => /^docs\/(decisions\/|architecture)/.test(page)))('%s', (page) => {
  it('names functions, classes and properties that exist', () => {
    const names = Array.from(readFileSync(fromRoot(page), 'utf8').matchAll(CODE_NAME), ([, name = '']) => name);
    expect(names.filter((name) => name.split('.').some((word) => !WORDS.has(word)))).toEqual([]);
  });
});

describe('deploy/gateways/README.md', () => {
  it('removes each identity header of the client also on open routes of Traefik', () => {
    const page = readFileSync(fromRoot('deploy/gateways/README.md'), 'utf8');
    const [, list = ''] = /authResponseHeaders: \[(.+)\]/.exec(page) ?? [];
    const removed = Array.from(page.matchAll(/\b(X-Auth-[\w-]+): ""/g), ([, name]) => name);
    expect(removed).toEqual(list.split(', '));
  });
});

describe('docs/console', () => {
  it('has pictures of five pages, which have at most 300 KB together', () => {
    const sizes = readdirSync(fromRoot('docs/console')).map((name) => statSync(fromRoot(`docs/console/${name}`)).size);
    expect(sizes).toHaveLength(5);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(MAX_PICTURES_BYTES);
  });
});

describe('the tree of docs/architecture.md', () => {
  const [tree = ''] = /^```\nsrc\/$[^]*?^```$/m.exec(readFileSync(fromRoot('docs/architecture.md'), 'utf8')) ?? [];
  const named = new Map<string, string[]>([['src', []]]);
  let parent = 'src';
  for (const [, indent = '', folder = ''] of tree.matchAll(/^( +)([\w-]+)\/ /gm)) {
    if (indent.length === 2) {
      named.get('src')?.push(folder);
      parent = `src/${folder}`;
    } else {
      named.set(parent, [...(named.get(parent) ?? []), folder]);
    }
  }

  it.each([...named])('has the folders of %s', (folder, names) => {
    const folders = readdirSync(fromRoot(folder), { withFileTypes: true }).filter((entry) => entry.isDirectory());
    expect([...names].sort()).toEqual(folders.map(({ name }) => name).sort());
  });
});
