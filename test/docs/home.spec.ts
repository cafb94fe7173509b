import { readFileSync } from 'node:fs';
import { useApp } from '../support/use-app.js';
import { fromRoot } from '../support/from-root.js';

const { version } = JSON.parse(readFileSync(fromRoot('package.json'), 'utf8')) as { version: string };
const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';

describe('GET /', () => {
  const app = useApp();

  it.each([undefined, '*/*', 'application/json'])('answers JSON to Accept: %s', async (accept) => {
    const { headers, body } = await app.get('/').set(accept === undefined ? {} : { Accept: accept });
    expect(headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      vary: 'Accept, Accept-Encoding',
    });
    expect(body).toEqual({ name: 'platform-auth', version, docs: '/docs', openapi: '/docs-json', health: '/health' });
  });

  it('answers a page to a browser, whose links exist', async () => {
    const { headers, text } = await app.get('/').set('Accept', BROWSER).expect(200);
    expect(headers).toMatchObject({ 'content-type': 'text/html; charset=utf-8', vary: 'Accept, Accept-Encoding' });
    expect(text).toContain(version);
    const links = [...text.matchAll(/href="([^"]+)"/g)].map(([, link]) => link!);
    expect(links).toEqual(expect.arrayContaining(['docs', 'docs-json', 'health']));
    for (const link of links) await app.get(`/${link}`).expect(200);
  });
});
