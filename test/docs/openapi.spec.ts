import { readFileSync } from 'node:fs';
import { Validator } from '@seriousme/openapi-schema-validator';
import type { OpenAPIObject } from '@nestjs/swagger';
import { EXAMPLES } from '../../src/common/names.js';
import { problems } from '../../src/problems/problems.js';
import { useApp } from '../support/use-app.js';
import { fromRoot } from '../support/from-root.js';

interface Property {
  readonly type: string | string[];
  readonly maxLength?: number;
  readonly enum?: string[];
  readonly example?: unknown;
}
interface Body {
  readonly additionalProperties?: unknown;
  readonly properties: Record<string, Property>;
}

interface Operation {
  readonly operationId: string;
  readonly tags: string[];
  readonly parameters?: { readonly required?: boolean; readonly name: string; readonly schema: Property }[];
  readonly requestBody?: { readonly content: Record<string, { schema: { $ref: string }; examples: object }> };
  readonly security?: object[];
  readonly responses: Record<
    string,
    { description: string; headers: object; content?: Record<string, { schema?: object; examples?: object }> }
  >;
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

  it('names its version, its licence, its server, and its tags in the order of a newcomer', () => {
    const { version } = JSON.parse(readFileSync(fromRoot('package.json'), 'utf8')) as { version: string };
    expect(document).toMatchObject({
      openapi: '3.1.0',
      info: { version, license: { name: 'MIT', identifier: 'MIT' } },
      servers: [{ url: '/' }],
    });
    const tags = ['auth', 'users', 'internal', 'admin', 'health'];
    expect(document.tags).toEqual(tags.map((name) => ({ name, description: expect.stringMatching(/\S/) as string })));
    expect([...new Set(operations.flatMap(([, operation]) => operation.tags))]).toEqual(tags);
  });

  it('describes the headers of each response', () => {
    const headersOf: Record<string, string[]> = {
      201: ['Location'],
      401: ['WWW-Authenticate'],
      429: ['Retry-After', 'RateLimit-Policy', 'RateLimit'],
      503: ['Retry-After'],
    };
    for (const [name, { responses }] of operations) {
      for (const [status, { headers }] of Object.entries(responses))
        expect({
          name,
          status,
          headers: Object.keys(headers).filter((header) => !/^X-(Auth-|Platform-Caller$)/.test(header)),
        }).toEqual({ name, status, headers: ['X-Request-Id', ...(headersOf[status] ?? [])] });
    }
  });

  it('describes each response once', () => {
    for (const [name, { responses }] of operations) {
      const unclear = Object.values(responses).filter(({ description }) => {
        const parts = description.split(/; |\n+/);
        return description === '' || new Set(parts).size < parts.length;
      });
      expect({ name, unclear }).toEqual({ name, unclear: [] });
    }
  });

  it('bounds every text of a request, and allows no other fields', () => {
    const isBounded = ({ type, maxLength, enum: words }: Property): boolean =>
      ![type].flat().includes('string') || maxLength !== undefined || words !== undefined;
    for (const [name, { parameters = [], requestBody }] of operations) {
      const unbounded = parameters.filter(({ schema }) => !isBounded(schema)).map((parameter) => parameter.name);
      for (const [type, { schema }] of Object.entries(requestBody?.content ?? {})) {
        const body = document.components!.schemas![schema.$ref.split('/').at(-1)!] as unknown as Body;
        // A form may have other fields (RFC 6749 §3.1).
        const isClosed = body.additionalProperties === false;
        expect({ name, isClosed }).toEqual({ name, isClosed: type === 'application/json' });
        unbounded.push(...Object.keys(body.properties).filter((field) => !isBounded(body.properties[field]!)));
      }
      expect({ name, unbounded }).toEqual({ name, unbounded: [] });
    }
  });

  it('lists no refusal of a body for requests without one', () => {
    const reading = operations.filter(([name]) => /^(GET|DELETE) /.test(name));
    expect(reading.length).toBeGreaterThan(10);
    for (const [name, { responses }] of reading) {
      const codes = Object.values(responses).flatMap(({ content }) =>
        Object.keys(content?.['application/problem+json']?.examples ?? {}),
      );
      expect(codes).not.toEqual([]);
      for (const code of ['payload_too_large', 'unsupported_media_type', 'body_too_deep'])
        expect({ name, codes }).not.toEqual({ name, codes: expect.arrayContaining([code]) as string[] });
    }
  });

  it('suggests no filters, and bodies of the required fields only', () => {
    const suggested = operations.flatMap(([name, { parameters = [] }]) =>
      parameters
        .filter(({ required, schema }) => !required && schema.example !== undefined)
        .map((parameter) => `${name} ${parameter.name}`),
    );
    expect(suggested).toEqual([]);
    expect(document.components!.examples).toMatchObject({
      CredentialsRequest: { value: { email: EXAMPLES.email, password: EXAMPLES.password } },
      RegistrationRequest: { value: { email: EXAMPLES.email, password: EXAMPLES.password } },
      IssueAppCredentialRequest: { value: { caller: EXAMPLES.caller, target: EXAMPLES.target } },
    });
    expect(document.components!.examples!.RegisterNodeRequest).toEqual({
      value: { household_id: EXAMPLES.householdId, room: EXAMPLES.room, name: EXAMPLES.name },
    });
  });

  it('lists the code of every problem', () => {
    const { code } = (document.components!.schemas!.Problem as unknown as Body).properties;
    expect(code!.enum).toEqual(Object.values(problems).map((problem) => problem.code));
  });

  it('has a security scheme for each door', () => {
    expect(document.components?.securitySchemes).toMatchObject({
      user: { type: 'http', scheme: 'bearer' },
      app_id: { type: 'apiKey', in: 'header', name: 'X-Platform-App-Id' },
      app_key: { type: 'apiKey', in: 'header', name: 'X-Platform-App-Key' },
      app_basic: { type: 'http', scheme: 'basic' },
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
          schema: { $ref: '#/components/schemas/Problem' },
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
