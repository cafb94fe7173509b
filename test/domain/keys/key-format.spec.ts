import { crc32 } from 'node:zlib';
import { redactSecrets } from '../../../src/foundation/common/redaction.js';
import { generateSecret, findKeys, generateKey } from '../../../src/foundation/crypto/secret.js';

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const key = generateKey('pa_node_');

describe('a key', () => {
  it('ends in six characters of checksum: the CRC-32 of what stands before, in base 62', () => {
    for (let round = 0; round < 200; round++) {
      const made = generateKey('pa_app_');
      expect(made).toMatch(/^pa_app_[\w-]{43}[0-9A-Za-z]{6}$/);
      const value = Array.from(made.slice(-6)).reduce((sum, digit) => sum * 62 + DIGITS.indexOf(digit), 0);
      expect(value).toBe(crc32(made.slice(0, -6)));
    }
  });

  it.each([
    ['alone', key],
    ['in a header', `X-API-Key: 01a1fc40-dddd:${key}`],
    ['in a query', `GET /?key=${key}&x=1`],
    ['in JSON', `{"api_key":"${key}"}`],
    ['before text without a gap', `${key}_and-more`],
  ])('is found %s', (_where, text) => {
    expect(findKeys(text)).toEqual([{ kind: 'node', key }]);
    expect(redactSecrets(text)).not.toContain(key.slice(0, 20));
  });

  it('is told from what only looks like one', () => {
    const changed = `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`;
    for (const text of [
      changed,
      key.slice(0, -6),
      'pa_node_x',
      'pa_node_kJ3…',
      `pa_rt_${generateSecret()}`,
      `pa_reset_${generateSecret()}`,
      'pa_',
    ])
      expect(findKeys(text)).toEqual([]);
  });
});
