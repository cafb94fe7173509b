import { readFileSync } from 'node:fs';
import { dictionary } from '@zxcvbn-ts/language-common';

const COMMON_COUNT = 10_000;

/** Frequent in leaks and missing from zxcvbn's list, because zxcvbn detects repetitions and sequences by rule. */
const ADDITIONAL_PASSWORDS = [
  ...Array.from('0123456789ax', (character) => character.repeat(8)),
  ...['1111111111', '0000000000', '12121212', '69696969', '12341234', '123123123', '123123123123', '11223344'],
  ...[
    '12345678',
    '123456789',
    '1234567890',
    '0123456789',
    '87654321',
    '987654321',
    '9876543210',
    '0987654321',
    '98765432',
  ],
  ...['admin123', 'admin1234', 'adminadmin', 'administrator', 'password123!', 'password1!', 'p@$$w0rd', 'p@ssword'],
  ...[
    'asdasdasd',
    'asdfasdf',
    'qweqweqwe',
    'qwerqwer',
    'abcabcabc',
    'abcdabcd',
    'abcdefgh',
    'welcome123',
    'letmein123',
  ],
];

/**
 * The blocklist of passwords that attackers guess first (ASVS 6.2.4), in lower case.
 * @param source `common`: the 10,000 most used; `off`: none; else the path of a file with one password per line
 */
export function loadCommonPasswords(source: string): ReadonlySet<string> {
  if (source === 'off') return new Set();
  if (source === 'common') return new Set([...dictionary['passwords'].slice(0, COMMON_COUNT), ...ADDITIONAL_PASSWORDS]);
  return new Set(
    readFileSync(source, 'utf8')
      .split(/\r?\n/)
      .map((line) => line.toLowerCase())
      .filter(Boolean),
  );
}
