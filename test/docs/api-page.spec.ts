import { readFileSync } from 'node:fs';
import type { OpenAPIObject } from '@nestjs/swagger';
import { problems } from '../../src/problems/problems.js';
import { listRoutes, problemTable, routeTable } from '../../tools/api-tables.js';
import { fromRoot } from '../support/from-root.js';
import { useApp } from '../support/use-app.js';

/** When it fails: npm run docs:api, and read the difference. */
describe('docs/api.md', () => {
  const app = useApp();
  const page = readFileSync(fromRoot('docs/api.md'), 'utf8');

  it('lists each route with its doors, its successes and its errors', async () => {
    const document = (await app.get('/docs-json').expect(200)).body as OpenAPIObject;
    expect(page).toContain(routeTable(listRoutes(document)));
  });

  it('lists each problem of the catalogue', () => {
    expect(page).toContain(problemTable(problems));
  });
});
