import { readFileSync } from 'node:fs';
import { Validator } from '@seriousme/openapi-schema-validator';
import type { OpenAPIObject } from '@nestjs/swagger';
import { Ajv } from 'ajv';
import formats from 'ajv-formats';
import { EXAMPLES, SERVICE_NAME_FORMAT } from '../../src/foundation/common/names.js';
import { problems } from '../../src/foundation/problems/problems.js';
import { listOfProblems, listOfRoutes, listRoutes } from '../../tools/api-tables.js';
import { useApp, useReplica } from '../support/use-app.js';
import { fromRoot } from '../support/from-root.js';

interface Property {
  readonly type: string | string[];
  readonly maxLength?: number;
  readonly enum?: string[];
  readonly example?: unknown;
  readonly examples?: unknown[];
  readonly items?: { readonly $ref?: string };
}
interface Body {
  readonly additionalProperties?: unknown;
  readonly properties: Record<string, Property>;
}
interface Media {
  readonly schema: { readonly $ref: string };
  readonly examples?: Record<string, { readonly $ref: string }>;
}

interface Operation {
  readonly summary: string;
  readonly tags: string[];
  readonly parameters?: { readonly required?: boolean; readonly name: string; readonly schema: Property }[];
  readonly requestBody?: { readonly content: Record<string, Media> };
  readonly security: object[];
  readonly responses: Record<string, { description: string; headers: object; content?: Record<string, Media> }>;
}

describe('GET /docs-json', () => {
  const app = useApp();
  const withoutMail = useReplica(app, { variables: { NODE_ENV: 'production' } });
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

  it('has no schema and no example that only routes use that are off, such as those that send mail', async () => {
    const { body, text } = await withoutMail.get('/docs-json').expect(200);
    const { paths, components } = body as OpenAPIObject;
    const { securitySchemes, ...referenced } = components as Record<string, object>;
    const unused = Object.entries(referenced).flatMap(([kind, named]) =>
      Object.keys(named).filter((name) => !text.includes(`"#/components/${kind}/${name}"`)),
    );
    expect(unused).toEqual([]);
    expect(document.components?.schemas).toHaveProperty('LinkRequest');
    expect(referenced.schemas).not.toHaveProperty('LinkRequest');
    expect(securitySchemes).toEqual(document.components?.securitySchemes);
    expect(paths).not.toHaveProperty('/api/v0/auth/password-reset');
  });

  it('names its version, its licence, its server, and its tags in the order of a newcomer', () => {
    const { version } = JSON.parse(readFileSync(fromRoot('package.json'), 'utf8')) as { version: string };
    expect(document).toMatchObject({
      openapi: '3.1.0',
      info: { version, license: { name: 'MIT', identifier: 'MIT' } },
      servers: [{ url: '/' }],
    });
    const tags = ['auth', 'users', 'households', 'nodes', 'internal', 'admin', 'health'];
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

  it('summarises each operation, and describes each response once', () => {
    for (const [name, { summary, responses }] of operations) {
      const unclear = Object.values(responses).filter(({ description }) => {
        const parts = description.split(/; |\n+/);
        return description === '' || new Set(parts).size < parts.length;
      });
      expect({ name, unclear, summary }).toEqual({ name, unclear: [], summary: expect.stringMatching(/\S/) });
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

  it('describes the service of an event subscription as a name', () => {
    const ofServices = operations.filter(([name]) => name.includes('/event-subscriptions/{service}'));
    expect(ofServices.length).toBeGreaterThan(0);
    for (const [, { parameters = [] }] of ofServices) {
      const { schema } = parameters.find(({ name }) => name === 'service')!;
      expect(schema).toEqual(SERVICE_NAME_FORMAT.schema);
    }
  });

  it('lists no refusal of a body for requests without one', () => {
    const reading = operations.filter(([name, { requestBody }]) => /^(GET|DELETE) /.test(name) && !requestBody);
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
    expect(document.components!.examples!.IssueNodeRequest).toEqual({
      value: { household_id: EXAMPLES.householdId, room: EXAMPLES.room, name: EXAMPLES.name },
    });
  });

  it('lists the code of every problem', () => {
    const { enum: codes } = document.components!.schemas!.ProblemCode as { enum?: string[] };
    expect(codes).toEqual(Object.values(problems).map((problem) => problem.code));
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
    const used = operations.flatMap(([, { security }]) => security.flatMap((one) => Object.keys(one)));
    expect(new Set(used)).toEqual(new Set(Object.keys(document.components!.securitySchemes!)));
  });

  it('documents every error as a problem with an example of each kind, equal to the problem that is sent', () => {
    const ajv = new Ajv({ strict: false });
    formats.default(ajv);
    const isProblem = ajv
      .addSchema({ $id: 'document', ...document })
      .getSchema('document#/components/schemas/Problem')!;
    const catalogue = new Map<string, number>(Object.values(problems).map(({ code, status }) => [code, status]));
    const shown = new Set<string>();
    for (const [name, { responses }] of operations) {
      for (const [status, { content }] of Object.entries(responses)) {
        if (Number(status) < 400 || (name === 'GET /health' && status === '503')) continue;
        const { schema, examples = {} } = content!['application/problem+json']!;
        expect({ name, status, schema }).toMatchObject({ schema: { $ref: '#/components/schemas/Problem' } });
        expect(Object.keys(examples)).not.toEqual([]);
        for (const [code, { $ref }] of Object.entries(examples)) {
          const { value } = document.components!.examples![$ref.split('/').at(-1)!] as { value: object };
          shown.add(code);
          expect({ name, code, valid: isProblem(value), errors: isProblem.errors }).toMatchObject({ valid: true });
          expect(value).toMatchObject({ status: Number(status), code });
          expect(catalogue.get(code)).toBe(Number(status));
        }
      }
    }
    // Unreadable requests and other methods belong to no operation.
    // Pages of the console are no part of the document, nor is a service of `platform-auth dev`.
    const { foreignForm, methodNotAllowed, requestTimeout, misdirectedRequest, headersTooLarge } = problems;
    const unroutable = [foreignForm, methodNotAllowed, requestTimeout, misdirectedRequest, headersTooLarge];
    expect(document.info.description).toContain(problems.methodNotAllowed.code);
    expect([...catalogue.keys()].filter((code) => !shown.has(code))).toEqual(unroutable.map(({ code }) => code));
  });

  it('has a schema for every request and response, and an example for every field', () => {
    const referred = new Set<string>();
    for (const [name, { requestBody, responses }] of operations) {
      const media = [requestBody, ...Object.values(responses)].flatMap((part) => Object.entries(part?.content ?? {}));
      for (const [type, { schema }] of media) {
        expect({ name, type, ref: schema.$ref }).toMatchObject({ ref: expect.stringMatching(/^#\//) as string });
        referred.add(schema.$ref.split('/').at(-1)!);
      }
    }
    referred.delete('Problem');
    const missing = [...referred].flatMap((name) => {
      const { properties = {} } = document.components!.schemas![name] as unknown as Partial<Body>;
      const bare = Object.entries(properties).filter(([, { example, examples, enum: words, items }]) => {
        return example === undefined && examples === undefined && words === undefined && items?.$ref === undefined;
      });
      return bare.map(([property]) => `${name}.${property}`);
    });
    expect(missing).toEqual([]);
  });

  it('names every choice, which some generators need to compile', () => {
    const unnamed: string[] = [];
    const collect = (part: unknown, place: string): void => {
      if (typeof part !== 'object' || part === null) return;
      const { enum: words = [] } = part as { enum?: unknown[] };
      // One that may be null is written where it is used.
      const isNamed = words.includes(null) || /^\/components\/schemas\/\w+$/.test(place);
      if (words.length > 1 && !isNamed) unnamed.push(place);
      for (const [name, child] of Object.entries(part)) collect(child, `${place}/${name}`);
    };
    collect(document, '');
    expect(unnamed).toEqual([]);
  });

  it('contains no alias, no hash and no digest', () => {
    expect(Object.keys(document.paths).filter((path) => /^\/(auth|users|admin)\b/.test(path))).toEqual([]);
    expect(JSON.stringify(document)).not.toMatch(/_digest|password_hash|passwordHash/);
  });

  it('documents hashing_busy for every route that may answer 429, because the queue of the throttles may be full', () => {
    const lacking = operations.filter(
      ([, { responses }]) =>
        responses['429'] && !responses['503']?.content?.['application/problem+json']?.examples?.hashing_busy,
    );
    expect(lacking.map(([name]) => name)).toEqual([]);
  });

  it('documents 500 for every route, and 503 for routes that need the database', () => {
    const lacking = operations.filter(([, { responses }]) => !responses['500'] || !responses['503']);
    expect(lacking.map(([name]) => name)).toEqual([]);
  });

  /** When it fails: npm run docs:api, and read the difference. */
  it.each([
    ['docs/api.md', 'routes', () => listOfRoutes(listRoutes(document))],
    ['docs/errors.md', 'problems', () => listOfProblems(problems)],
  ])('is what %s says of %s', (page, _what, list) => {
    expect(readFileSync(fromRoot(page), 'utf8')).toContain(list());
  });
});
