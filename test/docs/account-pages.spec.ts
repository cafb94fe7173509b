import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fromRoot } from '../support/from-root.js';

const FOLDER = fromRoot('examples/account-pages');
const PAGES = readdirSync(FOLDER).filter((name) => name.endsWith('.html'));

describe.each(PAGES)('examples/account-pages/%s', (name) => {
  const page = readFileSync(join(FOLDER, name), 'utf8');

  /** When it fails: node examples/account-pages/renew-hashes.js <path of the page>. */
  it.each(['script', 'style'])('has a policy that allows its own %s', (element) => {
    const [, content = ''] = new RegExp(`<${element}[^>]*>([^]*?)</${element}>`).exec(page) ?? [];
    const [, allowed] = new RegExp(`${element}-src 'sha256-([^']*)'`).exec(page) ?? [];
    expect(allowed).toBe(createHash('sha256').update(content).digest('base64'));
  });
});
