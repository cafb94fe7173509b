import { readFileSync } from 'node:fs';
import { Validator } from '@seriousme/openapi-schema-validator';
import type { OpenAPIObject } from '@nestjs/swagger';
import { formatWelcome } from '../../src/bootstrap/first-run.js';
import { EXAMPLES } from '../../src/common/examples.js';
import { parseEnvironment } from '../../src/config/environment.js';
import { toProblemType } from '../../src/problems/problem.filter.js';
import { problems } from '../../src/problems/problems.js';
import { VARIABLES } from '../support/settings.js';
import { useApp } from '../support/use-app.js';
import { fromRoot } from '../support/from-root.js';

/** Each route of the contract, with its operation id. */
const ROUTES = {
  'DELETE /api/v0/admin/app-credentials/{app_id}': 'revokeAppCredential',
  'DELETE /api/v0/admin/nodes/{node_id}': 'revokeNode',
  'DELETE /api/v0/admin/operators/{operator_id}': 'revokeOperator',
  'DELETE /api/v0/admin/users/{id}': 'deleteUser',
  'DELETE /api/v0/admin/users/{id}/factors': 'removeUserFactors',
  'DELETE /api/v0/admin/users/{id}/sessions': 'endUserSessions',
  'DELETE /api/v0/users/me/sessions': 'endOtherSessions',
  'DELETE /api/v0/users/me/sessions/{id}': 'endOwnSession',
  'GET /.well-known/jwks.json': 'listSigningKeys',
  'GET /api/v0/admin/app-credentials': 'listAppCredentials',
  'GET /api/v0/admin/app-credentials/{app_id}': 'getAppCredential',
  'GET /api/v0/admin/app-credentials/{app_id}/explain': 'explainAppCredential',
  'GET /api/v0/admin/audit-events': 'listAuditEvents',
  'GET /api/v0/admin/nodes': 'listNodes',
  'GET /api/v0/admin/nodes/{node_id}': 'getNode',
  'GET /api/v0/admin/nodes/{node_id}/explain': 'explainNode',
  'GET /api/v0/admin/operators': 'listOperators',
  'GET /api/v0/admin/operators/{operator_id}': 'getOperator',
  'GET /api/v0/admin/users': 'listUsers',
  'GET /api/v0/admin/users/{id}': 'getUserAsAdmin',
  'GET /api/v0/admin/users/{id}/explain': 'explainUser',
  'GET /api/v0/admin/users/{id}/sessions': 'listUserSessions',
  'GET /api/v0/users/me': 'getCurrentUser',
  'GET /api/v0/users/me/passkeys': 'listPasskeys',
  'GET /api/v0/users/me/sessions': 'listOwnSessions',
  'GET /api/v0/users/me/totp': 'getTotp',
  'GET /api/v0/users/{id}': 'getUser',
  'GET /health': 'checkReadiness',
  'GET /health/live': 'checkLiveness',
  'GET /internal/authorize/app': 'authorizeApp',
  'GET /internal/authorize/node': 'authorizeNode',
  'GET /internal/authorize/user': 'authorizeUser',
  'PATCH /api/v0/admin/nodes/{node_id}': 'updateNode',
  'PATCH /api/v0/admin/operators/{operator_id}': 'updateOperator',
  'PATCH /api/v0/admin/users/{id}': 'updateUser',
  'PATCH /api/v0/users/me/passkeys/{id}': 'renamePasskey',
  'POST /api/v0/admin/app-credentials': 'mintAppCredential',
  'POST /api/v0/admin/app-credentials/{app_id}/rotate': 'rotateAppCredential',
  'POST /api/v0/admin/nodes': 'registerNode',
  'POST /api/v0/admin/nodes/{node_id}/rotate': 'rotateNode',
  'POST /api/v0/admin/operators': 'addOperator',
  'POST /api/v0/admin/operators/{operator_id}/rotate': 'rotateOperator',
  'POST /api/v0/admin/users': 'createUser',
  'POST /api/v0/admin/users/{id}/password-reset': 'issuePasswordReset',
  'POST /api/v0/auth/email-verification': 'requestEmailVerification',
  'POST /api/v0/auth/email-verification/confirm': 'confirmEmail',
  'POST /api/v0/auth/login': 'login',
  'POST /api/v0/auth/login/passkey': 'logInWithPasskey',
  'POST /api/v0/auth/login/passkey/options': 'createPasskeyLoginOptions',
  'POST /api/v0/auth/login/second-factor': 'answerSecondFactor',
  'POST /api/v0/auth/logout': 'logout',
  'POST /api/v0/auth/password-reset': 'requestPasswordReset',
  'POST /api/v0/auth/password-reset/confirm': 'confirmPasswordReset',
  'POST /api/v0/auth/refresh': 'refresh',
  'POST /api/v0/auth/register': 'register',
  'POST /api/v0/users/me/delete': 'deleteOwnAccount',
  'POST /api/v0/users/me/email': 'changeEmail',
  'POST /api/v0/users/me/passkeys': 'registerPasskey',
  'POST /api/v0/users/me/passkeys/options': 'createPasskeyOptions',
  'POST /api/v0/users/me/passkeys/{id}/remove': 'removePasskey',
  'POST /api/v0/users/me/password': 'changePassword',
  'POST /api/v0/users/me/recovery-codes': 'replaceRecoveryCodes',
  'POST /api/v0/users/me/totp': 'enrolTotp',
  'POST /api/v0/users/me/totp/confirm': 'confirmTotp',
  'POST /api/v0/users/me/totp/remove': 'removeTotp',
  'POST /internal/changes': 'pollChanges',
  'POST /internal/introspect': 'introspectToken',
  'POST /internal/validate-app': 'validateApp',
  'POST /internal/validate-node': 'validateNode',
  'POST /internal/validate-user': 'validateUser',
};

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

  it('lists every route of the contract exactly once, without aliases', () => {
    expect(operations.map(([name]) => name).sort()).toEqual(Object.keys(ROUTES));
  });

  it('names each operation with a verb phrase', () => {
    expect(Object.fromEntries(operations.map(([name, { operationId }]) => [name, operationId]))).toEqual(ROUTES);
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
          headers: Object.keys(headers).filter((header) => !header.startsWith('X-Auth-')),
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
      MintAppCredentialRequest: { value: { caller: EXAMPLES.caller, target: EXAMPLES.target } },
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

describe('the README', () => {
  it('uses the same example account and keys as the start message and the OpenAPI document', () => {
    const readme = readFileSync(fromRoot('README.md'), 'utf8');
    const welcome = formatWelcome(parseEnvironment({ ...VARIABLES, DATABASE_URL: 'postgresql://x' }), undefined);
    const { email, password, householdId, room, name, caller, target } = EXAMPLES;
    const bodies = [{ email, password }, { caller, target }, { household_id: householdId, room, name }, { target }];
    for (const body of bodies) {
      expect(readme).toContain(JSON.stringify(body));
      expect(welcome).toContain(JSON.stringify(body));
    }
  });

  it('lists every kind of problem', () => {
    const readme = readFileSync(fromRoot('README.md'), 'utf8');
    const missing = Object.values(problems).filter((problem) => !readme.includes(toProblemType(problem)));
    expect(missing.map(({ code }) => code)).toEqual([]);
  });
});
