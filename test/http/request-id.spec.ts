import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { getCallerRequestId } from '../../src/common/ids.js';
import { fromRoot } from '../support/from-root.js';

const SOURCES = fromRoot('src');

/** The prefixes of the secrets that the service issues, from its sources. */
const prefixes = [
  ...new Set(
    readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .flatMap((name) =>
        [...readFileSync(join(SOURCES, name), 'utf8').matchAll(/'(pa_\w*_)'/g)].map(([, text]) => text!),
      ),
  ),
].sort();

const readId = (id: string): string | undefined => getCallerRequestId({ headers: { 'x-request-id': id } });

describe('X-Request-Id', () => {
  it('is looked at for every prefix of a secret that the service issues', () => {
    expect(prefixes).toEqual(['pa_admin_', 'pa_app_', 'pa_email_', 'pa_node_', 'pa_reset_', 'pa_rt_']);
  });

  it.each(prefixes)('is not logged when it holds a secret: %s', (prefix) => {
    expect(readId(`${prefix}x`)).toBeUndefined();
    expect(readId(`my-${prefix}x`)).toBeUndefined();
    expect(readId('request-17')).toBe('request-17');
  });
});
