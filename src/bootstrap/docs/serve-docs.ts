import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { INestApplication } from '@nestjs/common';
import type { OpenAPIObject } from '@nestjs/swagger';
import { stringify } from 'yaml';
import { createPageHandler } from '../../http/static-page.js';
import { createOpenApiDocument } from './openapi-document.js';

const require = createRequire(import.meta.url);
const HTML = 'text/html; charset=utf-8';
const SCRIPT = 'text/javascript; charset=utf-8';
/** The files of Swagger UI's distribution that the page loads, with their media types. */
const FILES = {
  'swagger-ui.css': 'text/css; charset=utf-8',
  'index.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': SCRIPT,
  'favicon-16x16.png': 'image/png',
  'favicon-32x32.png': 'image/png',
} as const;
/** Repeats objects, as JSON does, instead of YAML aliases. */
const YAML = { aliasDuplicateObjects: false } as const;

/** Swagger UI at /docs, the document at /docs-json and /docs-yaml. */
export function serveDocs(app: INestApplication): void {
  const http = app.getHttpAdapter();
  let built: OpenAPIObject | undefined;
  const document = (): OpenAPIObject => (built ??= createOpenApiDocument(app));
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
  for (const [name, type] of Object.entries(FILES)) {
    http.get(
      `/docs/${name}`,
      createPageHandler(type, () => readFileSync(require.resolve(`swagger-ui-dist/${name}`))),
    );
  }
  const page = createPageHandler(HTML, () => renderHtml('./docs/'));
  const pageInFolder = createPageHandler(HTML, () => renderHtml('./'));
  http.get('/docs', page);
  http.get('/docs/', pageInFolder);
  http.get('/docs/index.html', pageInFolder);
}

/** @param folder relative URL of the page's files, because a proxy may add a prefix to the path */
function renderHtml(folder: string): string {
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Authentication service</title>
    <link rel="icon" type="image/png" href="${folder}favicon-32x32.png" sizes="32x32">
    <link rel="icon" type="image/png" href="${folder}favicon-16x16.png" sizes="16x16">
    <link rel="stylesheet" href="${folder}swagger-ui.css">
    <link rel="stylesheet" href="${folder}index.css">
  </head>
  <body>
    <div id="swagger-ui"></div>
    <script src="${folder}swagger-ui-bundle.js"></script>
    <script src="${folder}swagger-ui-init.js"></script>
  </body>
</html>
`;
}

/** A file of its own, because the content security policy does not allow inline scripts. */
function renderInitScript(document: OpenAPIObject): string {
  const options = {
    dom_id: '#swagger-ui',
    deepLinking: true,
    persistAuthorization: false,
    displayRequestDuration: true,
    tryItOutEnabled: true,
    spec: document,
  };
  return `window.ui = SwaggerUIBundle(${JSON.stringify(options)});\n`;
}
