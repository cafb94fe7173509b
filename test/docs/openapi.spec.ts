import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Validator } from '@seriousme/openapi-schema-validator';
import type { OpenAPIObject } from '@nestjs/swagger';
import { toProblemType } from '../../src/problems/problem-body.js';
import { problems } from '../../src/problems/problems.js';
import { useApp } from '../support/use-app.js';

const ROUTES = [
  'DELETE /api/v0/admin/app-credentials/{app_id}',
  'DELETE /api/v0/admin/nodes/{node_id}',
  'DELETE /api/v0/admin/users/{id}',
  'DELETE /api/v0/admin/users/{id}/sessions',
  'GET /api/v0/admin/app-credentials',
  'GET /api/v0/admin/app-credentials/{app_id}',
  'GET /api/v0/admin/app-credentials/{app_id}/explain',
  'GET /api/v0/admin/audit-events',
  'GET /api/v0/admin/nodes',
  'GET /api/v0/admin/nodes/{node_id}',
  'GET /api/v0/admin/nodes/{node_id}/explain',
  'GET /api/v0/admin/users',
  'GET /api/v0/admin/users/{id}',
  'GET /api/v0/admin/users/{id}/sessions',
  'GET /api/v0/users/me',
  'GET /api/v0/users/{id}',
  'GET /health',
  'GET /health/live',
  'GET /internal/authorize/app',
  'GET /internal/authorize/node',
  'GET /internal/authorize/user',
  'PATCH /api/v0/admin/nodes/{node_id}',
  'PATCH /api/v0/admin/users/{id}',
  'POST /api/v0/admin/app-credentials',
  'POST /api/v0/admin/app-credentials/{app_id}/rotate',
  'POST /api/v0/admin/nodes',
  'POST /api/v0/admin/nodes/{node_id}/rotate',
  'POST /api/v0/admin/users',
  'POST /api/v0/auth/login',
  'POST /api/v0/auth/logout',
  'POST /api/v0/auth/refresh',
  'POST /api/v0/auth/register',
  'POST /internal/changes',
  'POST /internal/introspect',
  'POST /internal/validate-app',
  'POST /internal/validate-node',
  'POST /internal/validate-user',
];

interface Operation {
  readonly security?: object[];
  readonly responses: Record<string, { content?: Record<string, { schema?: object; examples?: object }> }>;
}

describe('GET /docs-json', () => {
  const app = useApp();
  let document: OpenAPIObject;
  let operations: [string, Operation][];

  beforeAll(async () => {
    document = (await app.get('/docs-json').expect(200)).body as OpenAPIObject;
    operations = Object.entries(document.paths).flatMap(([path, item]) =>
      Object.entries(item).map(([method, operation]): [string, Operation] => [
        `${method.toUpperCase()} ${path}`,
        operation as Operation,
      ]),
    );
  });

  it('is valid OpenAPI', async () => {
    expect(await new Validator().validate(structuredClone(document) as unknown as Record<string, unknown>)).toEqual({
      valid: true,
    });
  });

  it('lists every route of the contract exactly once, without aliases', () => {
    expect(operations.map(([name]) => name).sort()).toEqual(ROUTES);
  });

  it('has a security scheme for each door', () => {
    expect(document.components?.securitySchemes).toMatchObject({
      user: { type: 'http', scheme: 'bearer' },
      app_id: { type: 'apiKey', in: 'header', name: 'X-Platform-App-Id' },
      app_key: { type: 'apiKey', in: 'header', name: 'X-Platform-App-Key' },
      node: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
      admin: { type: 'apiKey', in: 'header', name: 'X-Admin-Key' },
    });
  });

  it('documents every error as a problem with an example of each kind', () => {
    for (const [name, { responses }] of operations) {
      for (const [status, response] of Object.entries(responses)) {
        if (Number(status) < 400 || (name === 'GET /health' && status === '503')) continue;
        const problem = response.content?.['application/problem+json'];
        expect({ name, status, schema: problem?.schema }).toMatchObject({
          schema: { $ref: '#/components/schemas/ProblemSchema' },
        });
        expect(Object.keys(problem?.examples ?? {})).not.toEqual([]);
      }
    }
  });

  it('documents 500 for every route, and 503 for routes that need the database', () => {
    const lacking = operations.filter(([, { responses }]) => !responses['500'] || !responses['503']);
    expect(lacking.map(([name]) => name)).toEqual([]);
  });
});

describe('the README', () => {
  it('lists every kind of problem', () => {
    const readme = readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8');
    const missing = Object.values(problems).filter((problem) => !readme.includes(toProblemType(problem)));
    expect(missing.map(({ code }) => code)).toEqual([]);
  });
});
