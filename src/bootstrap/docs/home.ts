import type { Request, Response } from 'express';
import { readPackageVersion } from '../../common/package-version.js';
import { createPageHandler } from '../../http/static-page.js';
import { renderPage } from './page.js';

const NAME = 'platform-auth';
const LINKS = { docs: '/docs', openapi: '/docs-json', health: '/health' } as const;

/** What this service is: a page for browsers, JSON for all other clients. */
export function createHomeHandler(): (request: Request, response: Response) => Promise<void> {
  const version = readPackageVersion();
  const json = createPageHandler('application/json; charset=utf-8', () =>
    JSON.stringify({ name: NAME, version, ...LINKS }),
  );
  const html = createPageHandler('text/html; charset=utf-8', () => renderHome(version));
  return (request, response) => {
    response.vary('Accept');
    return request.accepts(['json', 'html']) === 'html' ? html(request, response) : json(request, response);
  };
}

function renderHome(version: string): string {
  return renderPage(
    'docs/',
    [],
    `<body class="home">
    <h1>Authentication service</h1>
    <p>${NAME} ${version}</p>
    <ul>
      <li><a href="docs">API documentation</a></li>
      <li><a href="docs-json">OpenAPI document</a></li>
      <li><a href="health">Health</a></li>
    </ul>
  </body>`,
  );
}
