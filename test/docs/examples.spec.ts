import type { OpenAPIObject } from '@nestjs/swagger';
import { Ajv, type ValidateFunction } from 'ajv';
import formats from 'ajv-formats';
import { problems } from '../../src/problems/problems.js';
import { useApp } from '../support/use-app.js';

interface Media {
  readonly schema?: { readonly $ref?: string };
  readonly examples?: Record<string, { readonly $ref: string }>;
}
interface Operation {
  readonly summary?: string;
  readonly security?: object[];
  readonly requestBody?: { readonly content: Record<string, Media> };
  readonly responses: Record<string, { readonly content?: Record<string, Media> }>;
}
interface Example {
  readonly value: { readonly status: number; readonly code: string };
}
interface Property {
  readonly example?: unknown;
  readonly examples?: unknown[];
  readonly enum?: unknown[];
  readonly items?: { readonly $ref?: string };
}

describe('the OpenAPI document, read on its own', () => {
  const app = useApp();
  let document: OpenAPIObject;
  let operations: { name: string; operation: Operation }[];
  let problem: ValidateFunction;

  beforeAll(async () => {
    document = (await app.get('/docs-json').expect(200)).body as OpenAPIObject;
    operations = Object.entries(document.paths).flatMap(([path, item]) =>
      Object.entries(item).map(([method, operation]) => ({
        name: `${method.toUpperCase()} ${path}`,
        operation: operation,
      })),
    );
    expect(operations.length).toBeGreaterThan(25);
    const ajv = new Ajv({ strict: false });
    formats.default(ajv);
    ajv.addSchema({ $id: 'document', ...document });
    problem = ajv.getSchema('document#/components/schemas/Problem')!;
  });

  const exampleAt = (path: string): Example =>
    document.components!.examples![path.replace('#/components/examples/', '')] as unknown as Example;

  it('describes every operation and its security', () => {
    const open = [
      '/.well-known/jwks.json',
      '/.well-known/oauth-authorization-server',
      '/health',
      '/health/live',
      '/health/ready',
      '/api/v0/nodes/enrol',
      '/api/v0/auth/register',
      '/api/v0/auth/login',
      '/api/v0/auth/login/second-factor',
      '/api/v0/auth/login/passkey',
      '/api/v0/auth/login/passkey/options',
      '/api/v0/auth/refresh',
      '/api/v0/auth/password-reset',
      '/api/v0/auth/password-reset/confirm',
      '/api/v0/auth/email-verification',
      '/api/v0/auth/email-verification/confirm',
    ];
    const described = operations.map(({ name, operation }) => ({
      name,
      summary: operation.summary,
      hasSecurity: operation.security!.length > 0,
    }));
    const summary = expect.stringMatching(/\S/) as string;
    const isOpen = (name: string): boolean => open.includes(name.split(' ')[1]!);
    expect(described).toEqual(operations.map(({ name }) => ({ name, summary, hasSecurity: !isOpen(name) })));
  });

  it('defines exactly the security schemes that it uses', () => {
    const used = operations.flatMap(({ operation }) => (operation.security ?? []).flatMap((one) => Object.keys(one)));
    expect([...new Set(used)].sort()).toEqual(Object.keys(document.components?.securitySchemes ?? {}).sort());
  });

  it('has an example for every error, equal to the problem that is sent', () => {
    const catalogue = new Map<string, number>(Object.values(problems).map(({ code, status }) => [code, status]));
    const shown = new Set<string>();
    for (const { name, operation } of operations) {
      for (const [status, { content }] of Object.entries(operation.responses)) {
        for (const [code, { $ref }] of Object.entries(content?.['application/problem+json']?.examples ?? {})) {
          const { value } = exampleAt($ref);
          shown.add(code);
          expect({ name, code, valid: problem(value), errors: problem.errors }).toMatchObject({ valid: true });
          expect({ status: value.status, code: value.code }).toEqual({ status: Number(status), code });
          expect(catalogue.get(code)).toBe(Number(status));
        }
      }
    }
    // Unreadable requests and other methods belong to no operation.
    const unroutable = [problems.methodNotAllowed.code, problems.headersTooLarge.code];
    expect(document.info.description).toContain(problems.methodNotAllowed.code);
    expect([...catalogue.keys()].filter((code) => !shown.has(code))).toEqual(unroutable);
  });

  it('has a schema for every request and response, and an example for every field', () => {
    const referred = new Set<string>();
    for (const { name, operation } of operations) {
      const media = [operation.requestBody, ...Object.values(operation.responses)].flatMap((part) =>
        Object.entries(part?.content ?? {}),
      );
      for (const [type, { schema }] of media) {
        expect({ name, type, ref: schema?.$ref }).toMatchObject({ ref: expect.stringMatching(/^#\//) as string });
        referred.add(schema!.$ref!.split('/').at(-1)!);
      }
    }
    const missing = [...referred]
      .filter((name) => name !== 'Problem')
      .flatMap((name) => {
        const { properties = {} } = document.components!.schemas![name] as { properties?: Record<string, Property> };
        const bare = Object.entries(properties).filter(([, { example, examples, enum: words, items }]) => {
          return example === undefined && examples === undefined && words === undefined && items?.$ref === undefined;
        });
        return bare.map(([property]) => `${name}.${property}`);
      });
    expect(missing).toEqual([]);
  });

  it('contains no alias, no hash and no digest', () => {
    const text = JSON.stringify(document);
    expect(Object.keys(document.paths).filter((path) => /^\/(auth|users|admin)\b/.test(path))).toEqual([]);
    expect(text).not.toMatch(/_digest|password_hash|passwordHash/);
  });

  it.each(['/docs', '/docs/', '/docs-json'])('is public at %s', async (path) => {
    await app.get(path).expect(200);
  });
});
