import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const BANNED = /\b(whoever|whomever|nobody|somebody|is no(?! longer\b)|so many|those that)\b/gi;
/** The user of the operating system. */
const ALLOWED = /`nobody`|'nobody'/g;
/** The first string of describe(), it(), the call after .each(), or a row of its table. */
const TEST_NAME = /(?:\b(?:describe|it)|\)|\[)[([]?\s*(['"`])((?:\\.|(?!\1).)*)\1/g;

function filesIn(folder: string, extension: string): string[] {
  const names = readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' });
  return names.filter((name) => name.endsWith(extension)).map((name) => `${folder}/${name}`);
}

const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8');

const bannedIn = (text: string): string[] => text.replace(ALLOWED, '').match(BANNED) ?? [];

/** @returns the places of banned words, as `file:line word` */
function findBanned(file: string): string[] {
  const lines = read(file).split('\n');
  return lines.flatMap((line, index) => bannedIn(line).map((word) => `${file}:${index + 1} ${word}`));
}

function findBannedNames(file: string): string[] {
  const names = [...read(file).matchAll(TEST_NAME)].map(([, , name]) => name!);
  return names.filter((name) => bannedIn(name).length > 0).map((name) => `${file} ${name}`);
}

describe('banned words', () => {
  it.each([
    ['src', '.ts'],
    ['docs', '.md'],
  ])('do not occur in %s/', (folder, extension) => {
    expect(filesIn(folder, extension).flatMap(findBanned)).toEqual([]);
  });

  it('do not occur in test names', () => {
    const specs = filesIn('test', '.spec.ts');
    expect(specs.length).toBeGreaterThan(80);
    expect(specs.flatMap(findBannedNames)).toEqual([]);
  });

  it('are recognised in any letter case, except "is no longer" and the user `nobody`', () => {
    expect(bannedIn("Whoever is no UUID; it is no longer run as 'nobody'.").join()).toBe('Whoever,is no');
  });
});
