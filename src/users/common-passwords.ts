import { readFileSync } from 'node:fs';
import { dictionary } from '@zxcvbn-ts/language-common';

const LISTED = 10_000;

/**
 * The passwords that guessers try first (ASVS 6.2.4).
 * @param source `common`: the 10,000 most used; `off`: none; else the path of a file with one password a line
 */
export function commonPasswords(source: string): ReadonlySet<string> {
  if (source === 'off') return new Set();
  if (source === 'common') return new Set(dictionary['passwords'].slice(0, LISTED));
  return new Set(
    readFileSync(source, 'utf8')
      .split(/\r?\n/)
      .map((line) => line.toLowerCase())
      .filter(Boolean),
  );
}
