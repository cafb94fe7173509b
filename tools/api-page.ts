import { readFileSync, writeFileSync } from 'node:fs';
import type { OpenAPIObject } from '@nestjs/swagger';
import { problems } from '../src/foundation/problems/problems.js';
import { claimPort } from './claim-port.js';
import { listRoutes, problemTable, routeTable } from './api-tables.js';
import { Cleanup } from './cleanup.js';
import { replacePart } from './marked-part.js';
import { startPostgres, UNSAFE } from './postgres.js';
import { ServerProcess } from './server-process.js';
import { makeSecrets, productionVariables, SERVICE_SCRIPT } from './service.js';

// Renews the tables of docs/api.md, with the catalogue of problems, from the OpenAPI document of the built service.

const PAGE = 'docs/api.md';

await Cleanup.around(async (cleanup) => {
  const database = await startPostgres({ cleanup, purpose: 'api-page', settings: UNSAFE });
  const variables = productionVariables(database.url(), makeSecrets());
  const service = new ServerProcess(await claimPort(), { cleanup, script: SERVICE_SCRIPT, variables });
  const { url } = await service.start();
  const document = (await (await fetch(`${url}/docs-json`)).json()) as OpenAPIObject;
  const withRoutes = replacePart(readFileSync(PAGE, 'utf8'), 'routes', routeTable(listRoutes(document)));
  writeFileSync(PAGE, replacePart(withRoutes, 'problems', problemTable(problems)));
});
