// Swagger UI at /docs, the OpenAPI document at /docs-json and /docs-yaml, and a page that leads there at /. The build
// makes these files in dist/docs/ (tools/build-docs.ts); the service reads each at its first request.

import { readFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { INestApplication } from '@nestjs/common';
import type { OpenAPIObject } from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { findPackageFile, readPackageVersion } from '../../foundation/common/package-version.js';
import { Environment } from '../../foundation/config/environment.js';
import { RouteTable } from '../../foundation/access/route-table.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';

const NAME = 'platform-auth';
const LINKS = { docs: '/docs', openapi: '/docs-json', health: '/health' } as const;
/** Pages are sent in slices, so that a slow client can be told from one that does not read. */
const SLICE_BYTES = 64 * 1024;
const ACCEPTS_GZIP = /(^|[,\s])gzip\s*(,|$|;\s*q=(1|0\.\d*[1-9]))/i;
const JSON_TYPE = 'application/json; charset=utf-8';
const HTML = 'text/html; charset=utf-8';
const SCRIPT = 'text/javascript; charset=utf-8';
const FILES: Readonly<Record<string, readonly string[]>> = {
  'text/css; charset=utf-8': ['page.css', 'swagger-ui.css', 'index.css'],
  [SCRIPT]: ['swagger-ui-bundle.js'],
  'image/png': ['favicon-16x16.png', 'favicon-32x32.png'],
};

/** Serves them as DOCS says (ASVS 13.4.5). */
export function serveDocs(app: INestApplication): void {
  const { docs, console, internalPort } = app.get(Environment);
  if (docs === 'off') return;
  // A page that PORT serves does not name what only INTERNAL_PORT has.
  const hasConsole = console === 'on' && (internalPort === undefined || docs === 'internal');
  const audience = docs === 'internal' ? 'operators' : 'anyone';
  const http = app.getHttpAdapter();
  const table = app.get(RouteTable);
  const install = (path: string, handler: ReturnType<typeof createPageHandler>): void => {
    table.addPage(path, audience);
    http.get(path, handler);
  };
  const serve = (path: string, ...page: Parameters<typeof createPageHandler>): void =>
    install(path, createPageHandler(...page));
  let read: OpenAPIObject | undefined;
  const document = (): OpenAPIObject => (read ??= readDocument(table));
  install('/', createHomeHandler(hasConsole));
  serve('/docs-json', JSON_TYPE, () => JSON.stringify(document()));
  // YAML aliases are off, because many readers of OpenAPI do not resolve them.
  serve('/docs-yaml', 'text/yaml; charset=utf-8', async () => {
    const { stringify } = await import('yaml');
    return stringify(document(), { aliasDuplicateObjects: false });
  });
  const readInit = (): string => readDocsFile('swagger-ui-init.js').toString();
  serve('/docs/swagger-ui-init.js', SCRIPT, () => `const spec = ${JSON.stringify(document())};\n${readInit()}`);
  for (const [type, names] of Object.entries(FILES))
    for (const name of names) serve(`/docs/${name}`, type, () => readDocsFile(name));
  for (const [path, folder] of Object.entries({ '/docs': './docs/', '/docs/': './', '/docs/index.html': './' }))
    serve(path, HTML, () => renderSwaggerPage(folder));
}

/** Drops the routes that this configuration lacks, such as those that send mail. */
function readDocument(table: RouteTable): OpenAPIObject {
  const document = JSON.parse(readDocsFile('openapi.json').toString()) as OpenAPIObject;
  const paths = Object.entries(document.paths).filter(([path]) => table.find(path) !== undefined);
  return keepUsedComponents({ ...document, paths: Object.fromEntries(paths) });
}

const REFERENCE = /"#\/components\/(\w+\/[\w.-]+)"/g;

/** Drops the schemas and examples that only dropped routes use. Security schemes stay, because no `$ref` names them. */
function keepUsedComponents(document: OpenAPIObject): OpenAPIObject {
  const { securitySchemes = {}, ...components } = (document.components ?? {}) as Record<
    string,
    Record<string, unknown>
  >;
  const used = new Set<string>();
  const visit = (part: unknown): void => {
    for (const [, name = ''] of JSON.stringify(part).matchAll(REFERENCE)) {
      if (used.has(name)) continue;
      used.add(name);
      const [kind = '', key = ''] = name.split('/');
      visit(components[kind]?.[key] ?? null);
    }
  };
  visit(document.paths);
  const kept = Object.entries(components).map(([kind, named]) => [
    kind,
    Object.fromEntries(Object.entries(named).filter(([name]) => used.has(`${kind}/${name}`))),
  ]);
  return {
    ...document,
    components: { securitySchemes, ...Object.fromEntries(kept) } as NonNullable<OpenAPIObject['components']>,
  };
}

function readDocsFile(name: string): Buffer {
  return readFileSync(findPackageFile(`dist/docs/${name}`));
}

/** Answers browsers with a page, and all other clients with JSON. */
function createHomeHandler(hasConsole: boolean): (request: Request, response: Response) => Promise<void> {
  const version = readPackageVersion();
  const links = { ...LINKS, ...(hasConsole && { console: '/console' }) };
  const json = createPageHandler(JSON_TYPE, () => JSON.stringify({ name: NAME, version, ...links }));
  const html = createPageHandler(HTML, () => renderHome(version, hasConsole));
  return (request, response) => {
    response.vary('Accept');
    return request.accepts(['json', 'html']) === 'html' ? html(request, response) : json(request, response);
  };
}

function renderHome(version: string, hasConsole: boolean): string {
  const console = hasConsole ? '\n      <li><a href="console">Console for operators</a></li>' : '';
  const body = `<body class="home">
    <h1>Authentication service</h1>
    <p>${NAME} ${version}</p>
    <ul>
      <li><a href="docs">API documentation</a></li>
      <li><a href="docs-json">OpenAPI document</a></li>
      <li><a href="health">Health</a></li>${console}
    </ul>
  </body>`;
  return renderPage('docs/', ['page.css'], body);
}

function renderSwaggerPage(folder: string): string {
  const body = `<body>
    <div id="swagger-ui"></div>
    <script src="${folder}swagger-ui-bundle.js"></script>
    <script src="${folder}swagger-ui-init.js"></script>
  </body>`;
  return renderPage(folder, ['swagger-ui.css', 'index.css', 'page.css'], body);
}

/**
 * All URLs are relative, because a proxy may add a prefix to the path.
 * @param folder of the files that the page loads
 */
function renderPage(folder: string, styles: readonly string[], body: string): string {
  const links = styles.map((name) => `<link rel="stylesheet" href="${folder}${name}">`);
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Authentication service</title>
    <link rel="icon" type="image/png" href="${folder}favicon-32x32.png" sizes="32x32">
    <link rel="icon" type="image/png" href="${folder}favicon-16x16.png" sizes="16x16">
    ${links.join('\n    ')}
  </head>
  ${body}
</html>
`;
}
/** Every response shares one buffer, so that slow clients hold no copies. */
function createPageHandler(type: string, make: () => string | Buffer | Promise<string>) {
  let content: ReturnType<typeof prepare> | undefined;
  return async (request: Request, response: Response): Promise<void> => {
    refusePreconditions(request);
    content ??= prepare(make);
    const { plain, compressed } = await content.catch((error: unknown) => {
      content = undefined;
      throw error;
    });
    const isCompressed = ACCEPTS_GZIP.test(request.headers['accept-encoding'] ?? '');
    const bytes = isCompressed ? compressed : plain;
    response.setHeader('Content-Type', type);
    response.setHeader('Content-Length', bytes.length);
    response.vary('Accept-Encoding');
    if (isCompressed) response.setHeader('Content-Encoding', 'gzip');
    if (request.method === 'HEAD' || bytes.length <= SLICE_BYTES) response.end(bytes);
    else Readable.from(slice(bytes)).pipe(response);
  };
}

/** Refuses conditional and range requests: their client would read a plain 200 as "the condition holds". */
function refusePreconditions({ headers }: Request): void {
  if (headers['if-match'] ?? headers['if-unmodified-since'] ?? headers.range)
    throw new ProblemException(problems.malformedRequest);
}

async function prepare(make: () => string | Buffer | Promise<string>) {
  const plain = Buffer.from(await make());
  return { plain, compressed: await promisify(gzip)(plain) };
}

function* slice(bytes: Buffer): Generator<Buffer> {
  for (let start = 0; start < bytes.length; start += SLICE_BYTES) yield bytes.subarray(start, start + SLICE_BYTES);
}
