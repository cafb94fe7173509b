import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { INestApplication } from '@nestjs/common';
import type { OpenAPIObject } from '@nestjs/swagger';
import { stringify } from 'yaml';
import { createPageHandler } from '../../http/static-page.js';
import { createHomeHandler } from './home.js';
import { createOpenApiDocument } from './openapi-document.js';
import { PAGE_CSS, renderSwaggerPage, renderInitScript } from './page.js';

const require = createRequire(import.meta.url);
const HTML = 'text/html; charset=utf-8';
const CSS = 'text/css; charset=utf-8';
const SCRIPT = 'text/javascript; charset=utf-8';
/** The files of Swagger UI's distribution that the page loads, with their media types. */
const FILES = {
  'swagger-ui.css': CSS,
  'index.css': CSS,
  'swagger-ui-bundle.js': SCRIPT,
  'favicon-16x16.png': 'image/png',
  'favicon-32x32.png': 'image/png',
} as const;
/** Repeats objects, as JSON does, instead of YAML aliases. */
const YAML = { aliasDuplicateObjects: false } as const;

/** Swagger UI at /docs, the document at /docs-json and /docs-yaml, and a page that leads there at /. */
export function serveDocs(app: INestApplication): void {
  const http = app.getHttpAdapter();
  let built: OpenAPIObject | undefined;
  const document = (): OpenAPIObject => (built ??= createOpenApiDocument(app));
  http.get('/', createHomeHandler());
  http.get(
    '/docs-json',
    createPageHandler('application/json; charset=utf-8', () => JSON.stringify(document())),
  );
  http.get(
    '/docs-yaml',
    createPageHandler('text/yaml; charset=utf-8', () => stringify(document(), YAML)),
  );
  http.get(
    '/docs/swagger-ui-init.js',
    createPageHandler(SCRIPT, () => renderInitScript(document())),
  );
  http.get(
    '/docs/page.css',
    createPageHandler(CSS, () => PAGE_CSS),
  );
  for (const [name, type] of Object.entries(FILES)) {
    http.get(
      `/docs/${name}`,
      createPageHandler(type, () => readFileSync(require.resolve(`swagger-ui-dist/${name}`))),
    );
  }
  const page = createPageHandler(HTML, () => renderSwaggerPage('./docs/'));
  const pageInFolder = createPageHandler(HTML, () => renderSwaggerPage('./'));
  http.get('/docs', page);
  http.get('/docs/', pageInFolder);
  http.get('/docs/index.html', pageInFolder);
}
