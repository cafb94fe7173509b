import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { INestApplication } from '@nestjs/common';
import { DocumentBuilder, SwaggerModule, type OpenAPIObject } from '@nestjs/swagger';
import { stringify } from 'yaml';
import { ProblemSchema } from '../problems/api-problems.js';
import { createPageHandler } from '../http/static-page.js';

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

const DESCRIPTION = `The central authority for authentication of a multi-service platform.

**Two verdicts, never confused.** \`401\` means: the credential is not valid. \`503\` with \`Retry-After\` means: the
credential could not be checked. Keep it and try again.

Every error is an RFC 9457 problem (\`application/problem+json\`) with a stable \`code\` to branch on and the
\`request_id\` under which the operator finds it in the logs.

Paths match exactly, in case and in slashes. A path that exists but does not support the method is
\`405\` (\`method_not_allowed\`) with \`Allow\`.`;

/** Creates the OpenAPI document of all routes. */
export function createOpenApiDocument(app: INestApplication): OpenAPIObject {
  const config = new DocumentBuilder()
    .setTitle('Authentication service')
    .setDescription(DESCRIPTION)
    .setVersion('0')
    .addBearerAuth(
      { type: 'http', scheme: 'bearer', bearerFormat: 'JWT', description: 'access token of a user' },
      'user',
    )
    .addApiKey(
      { type: 'apiKey', in: 'header', name: 'X-Platform-App-Id', description: 'app id of a service' },
      'app_id',
    )
    .addApiKey(
      { type: 'apiKey', in: 'header', name: 'X-Platform-App-Key', description: 'app key of a service' },
      'app_key',
    )
    .addApiKey({ type: 'apiKey', in: 'header', name: 'X-API-Key', description: 'node_id:api_key of a node' }, 'node')
    .addApiKey({ type: 'apiKey', in: 'header', name: 'X-Admin-Key', description: 'ADMIN_API_KEY' }, 'admin')
    .build();
  return SwaggerModule.createDocument(app, config, { extraModels: [ProblemSchema] });
}

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
