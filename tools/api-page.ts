// Renews the routes of docs/api.md and the problems of docs/errors.md, from the OpenAPI document of the built service.
import { readFileSync, writeFileSync } from 'node:fs';
import type { OpenAPIObject } from '@nestjs/swagger';
import { problems } from '../src/foundation/problems/problems.js';
import { claimPort } from './claim-port.js';
import { listOfProblems, listOfRoutes, listRoutes } from './api-tables.js';
import { Cleanup } from './cleanup.js';
import { replacePart } from './marked-part.js';
import { startPostgres, UNSAFE } from './postgres.js';
import { ServerProcess } from './server-process.js';
import { makeSecrets, productionVariables, SERVICE_SCRIPT } from './service.js';

const ROUTES_PAGE = 'docs/api.md';
const PROBLEMS_PAGE = 'docs/errors.md';

await Cleanup.around(async (cleanup) => {
  const database = await startPostgres({ cleanup, purpose: 'api-page', settings: UNSAFE });
  const variables = productionVariables(database.url(), makeSecrets());
  const service = new ServerProcess(await claimPort(), { cleanup, script: SERVICE_SCRIPT, variables });
  const { url } = await service.start();
  const document = (await (await fetch(`${url}/docs-json`)).json()) as OpenAPIObject;
  renew(ROUTES_PAGE, 'routes', listOfRoutes(listRoutes(document)));
  renew(PROBLEMS_PAGE, 'problems', listOfProblems(problems));
});

function renew(page: string, part: string, text: string): void {
  writeFileSync(page, replacePart(readFileSync(page, 'utf8'), part, text));
}
