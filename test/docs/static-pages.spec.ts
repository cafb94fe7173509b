import { readFileSync } from 'node:fs';
import request from 'supertest';
import { parse } from 'yaml';
import { UNLEASED } from '../support/settings.js';
import { useApp } from '../support/use-app.js';
import { fromRoot } from '../support/from-root.js';
import { problems } from '../../src/foundation/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';

const { version } = JSON.parse(readFileSync(fromRoot('package.json'), 'utf8')) as { version: string };

const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';

const app = useApp({ variables: UNLEASED });

describe('GET /', () => {
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

describe('GET / with CONSOLE=on', () => {
  const app = useApp({ variables: { ...UNLEASED, CONSOLE: 'on' } });

  it('names the console', async () => {
    expect((await app.get('/')).body).toMatchObject({ health: '/health', console: '/console' });
    expect((await app.get('/').set('Accept', BROWSER)).text).toContain('href="console"');
  });
});

describe('GET / with CONSOLE=on and INTERNAL_PORT', () => {
  const app = useApp({ variables: { ...UNLEASED, CONSOLE: 'on', INTERNAL_PORT: '0' } });

  it('does not name the console, which PORT does not serve', async () => {
    expect((await app.get('/')).body).not.toHaveProperty('console');
  });
});

describe('GET / with CONSOLE=on, INTERNAL_PORT and DOCS=internal', () => {
  const app = useApp({ variables: { ...UNLEASED, CONSOLE: 'on', INTERNAL_PORT: '0', DOCS: 'internal' } });

  it('names the console, because INTERNAL_PORT serves both', async () => {
    expect((await request(app.internal!).get('/')).body).toMatchObject({ console: '/console' });
  });
});

const PAGES = ['/docs', '/docs/', '/docs/index.html', '/docs-json', '/docs-yaml', '/docs/swagger-ui-init.js'];

const FILES = ['swagger-ui.css', 'index.css', 'swagger-ui-bundle.js', 'favicon-16x16.png', 'favicon-32x32.png'];

const ALL = [...PAGES, ...FILES.map((name) => `/docs/${name}`)];

describe.each(['internal', 'off'])('with DOCS=%s', (DOCS) => {
  const app = useApp({ variables: { ...UNLEASED, DOCS, INTERNAL_PORT: '0' } });

  it.each(['/', ...ALL])(`answers ${DOCS === 'off' ? '404' : '200 on INTERNAL_PORT only'}: %s`, async (path) => {
    await app.get(path).expect(404);
    await request(app.internal!)
      .get(path)
      .expect(DOCS === 'off' ? 404 : 200);
  });
});

/** Whether a value is the OpenAPI document or contains it. */
function isDocument(value: unknown): boolean {
  return typeof value === 'object' && value !== null && ('openapi' in value || 'spec' in value);
}

describe('the documentation', () => {
  /** The decompressed body of a response. */
  const bytesOf = async (path: string, encoding: string) => {
    const answer = await app
      .get(path)
      .set('Accept-Encoding', encoding)
      .buffer(true)
      .parse((response, done) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () => done(null, Buffer.concat(chunks)));
      });
    expect(answer.status).toBe(200);
    return { headers: answer.headers, bytes: answer.body as Buffer };
  };

  it('is serialised once for all requests', async () => {
    const other = await app.startReplica();
    const stringify = jest.spyOn(JSON, 'stringify');
    for (const path of [...PAGES, ...PAGES, ...PAGES]) await other.get(path).expect(200);
    const ofDocument = stringify.mock.calls.filter(([value]) => isDocument(value));
    jest.restoreAllMocks();
    // Once for /docs-json, once for the script of the page.
    expect(ofDocument).toHaveLength(2);
    await other.stop();
  });

  it.each(ALL)('is the same at %s with and without compression, with matching headers', async (path) => {
    const plain = await bytesOf(path, 'identity');
    const compressed = await bytesOf(path, 'br, gzip;q=0.8');
    expect(plain.headers['content-encoding']).toBeUndefined();
    expect(compressed.headers).toMatchObject({ 'content-encoding': 'gzip', vary: 'Accept-Encoding' });
    // supertest has decompressed the body.
    expect(compressed.bytes.equals(plain.bytes)).toBe(true);
    expect(plain.headers['content-length']).toBe(String(plain.bytes.length));
    expect(await bytesOf(path, 'gzip;q=0, *')).toMatchObject({ bytes: plain.bytes });
    const head = await request(app.server).head(path).set('Accept-Encoding', 'identity').expect(200);
    expect(head.headers['content-length']).toBe(String(plain.bytes.length));
  });

  it('is the same document as JSON, as YAML and in Swagger UI', async () => {
    const { body } = await app.get('/docs-json').expect(200);
    const yaml = await bytesOf('/docs-yaml', 'identity');
    expect(parse(yaml.bytes.toString())).toEqual(body);
    const script = (await bytesOf('/docs/swagger-ui-init.js', 'identity')).bytes.toString();
    expect(script).toContain(JSON.stringify(body));
  });

  it.each(['/docs', '/docs/', '/docs/index.html'])('links only to existing files, from %s', async (page) => {
    const { text } = await app.get(page).expect(200);
    const references = [...text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path!);
    expect(references.length).toBeGreaterThanOrEqual(6);
    for (const path of references) await app.get(new URL(path, `http://service${page}`).pathname).expect(200);
  });

  it.each(['/docs/package.json', '/docs/LICENSE', '/docs/swagger-ui-bundle.js.map', '/docs/swagger-ui.js', '/docs/x/'])(
    'answers 404 at %s',
    async (path) => {
      expectProblem(await app.get(path), problems.notFound);
    },
  );
});
