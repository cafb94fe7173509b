// The OpenAPI document: @nestjs/swagger finds the routes in the controllers, and this file adds what holds for every
// operation and what decorators cannot express. So no controller repeats either.
import { STATUS_CODES } from 'node:http';
import type { INestApplication } from '@nestjs/common';
import { DocumentBuilder, SwaggerModule, type OpenAPIObject } from '@nestjs/swagger';
import { SCOPE_EXTENSION, type NeededScope } from '../src/foundation/access/route-decorators.js';
import { readPackageVersion } from '../src/foundation/common/package-version.js';
import { EXAMPLES, listAcceptedScopes, SERVICE_NAME_FORMAT } from '../src/foundation/common/names.js';
import { createProblemExamples, ProblemSchema } from '../src/foundation/problems/api-problems.js';

const DESCRIPTION = `The central authority for authentication of a multi-service platform.

**Two verdicts, never confused.** \`401\` means: the credential is not valid. \`503\` with \`Retry-After\` means: the
credential could not be checked. Keep it and try again.

Every error is an RFC 9457 problem (\`application/problem+json\`) with a stable \`code\` to branch on and the
\`request_id\` under which the operator finds it in the logs.

Paths match exactly, in case and in slashes. A path that exists but does not support the method is
\`405\` (\`method_not_allowed\`) with \`Allow\`; \`OPTIONS\` answers 204 with \`Allow\`.`;

/** In the order in which a newcomer needs them. */
const TAGS = {
  auth: 'Users register, log in, renew their tokens and log out.',
  users: 'Accounts: what their owner, a service and an operator may read, and what the owner changes.',
  households: 'Who lives where: what people do about their households, members and devices.',
  nodes: 'Devices: what a node does about itself.',
  internal: 'For services: is the credential that a caller presented valid?',
  admin: 'For operators: users, app credentials, nodes, operators, and the audit log.',
  health: 'For load balancers and orchestrators.',
} as const;

/** Creates the OpenAPI document of all routes. An operation's id is the name of the controller's method. */
export function createOpenApiDocument(app: INestApplication): OpenAPIObject {
  const config = new DocumentBuilder()
    .setTitle('Authentication service')
    .setDescription(DESCRIPTION)
    .setVersion(readPackageVersion())
    .addServer('/', 'this service')
    .addBearerAuth(
      { type: 'http', scheme: 'bearer', bearerFormat: 'JWT', description: 'access token of a user' },
      'user',
    )
    .addApiKey(
      { type: 'apiKey', in: 'header', name: 'X-Platform-App-Id', description: 'app id of a service' },
      'app_id',
    )
    .addApiKey(
      { type: 'apiKey', in: 'header', name: 'X-Platform-App-Key', description: 'app key of a service' },
      'app_key',
    )
    .addBasicAuth({ type: 'http', scheme: 'basic', description: 'app id and app key of a service' }, 'app_basic')
    .addApiKey({ type: 'apiKey', in: 'header', name: 'X-API-Key', description: 'node_id:api_key of a node' }, 'node')
    .addApiKey(
      { type: 'apiKey', in: 'header', name: 'X-Admin-Key', description: 'ADMIN_API_KEY, or the key of an operator' },
      'admin',
    );
  for (const [name, description] of Object.entries(TAGS)) config.addTag(name, description);
  const document = SwaggerModule.createDocument(app, config.build(), {
    extraModels: [ProblemSchema],
    operationIdFactory: (_controller, method) => method,
  });
  return completeDocument(document);
}

const EXAMPLES_PATH = '#/components/examples/';
const PROBLEM = 'application/problem+json';
const UUID_LENGTH = 36;
/** Methods whose requests have no body, unless the operation declares one. */
const WITHOUT_BODY = new Set(['get', 'delete']);
const BODY_STATUSES = ['413', '415'];
const BODY_EXAMPLE = 'body_too_deep';

interface Schema {
  description?: string;
  type?: string | string[];
  format?: string;
  nullable?: boolean;
  example?: unknown;
  maxLength?: number;
  items?: { $ref?: string };
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: unknown;
}
interface Media {
  schema?: { $ref?: string };
  examples?: Record<string, object>;
}
interface Response {
  description: string;
  headers?: Record<string, object>;
  content?: Record<string, Media>;
}
interface Operation {
  tags?: string[];
  description?: string;
  [SCOPE_EXTENSION]?: NeededScope;
  security?: object[];
  parameters?: { in: string; name: string; required?: boolean; schema?: Schema }[];
  requestBody?: { required?: boolean; content: Record<string, Media> };
  responses: Record<string, Response>;
}
type ProblemExamples = ReturnType<typeof createProblemExamples>;
type Item = Record<string, Operation>;

/** @returns the document as OpenAPI 3.1, in the order of its tags */
function completeDocument(created: OpenAPIObject): OpenAPIObject {
  // Copied, because its parts are metadata of the controllers, which every document shares.
  const document = structuredClone(created);
  const components = document.components ?? {};
  const schemas = (components.schemas ?? {}) as Record<string, Schema>;
  const problemExamples = createProblemExamples();
  const requestExamples: Record<string, object> = {};
  const items = document.paths as unknown as Record<string, Item>;
  for (const [path, item] of Object.entries(items)) {
    for (const [method, operation] of Object.entries(item)) {
      completeOperation(method, operation, problemExamples);
      const isQuestion = path.startsWith('/internal/') && !WITHOUT_BODY.has(method);
      if (isQuestion) operation.requestBody ??= describeEmptyBody(schemas);
      Object.assign(requestExamples, completeRequest(operation, schemas));
    }
  }
  const examples = { ...problemExamples, ...requestExamples };
  const order = (document.tags ?? []).map(({ name }) => name);
  const rank = (item: Item): number => order.indexOf(Object.values(item)[0]?.tags?.[0] ?? '');
  const paths = Object.fromEntries(Object.entries(items).sort(([, left], [, right]) => rank(left) - rank(right)));
  const completed = {
    ...document,
    openapi: '3.1.0',
    info: { ...document.info, license: { name: 'MIT', identifier: 'MIT' } },
    paths,
    components: { ...components, headers: RESPONSE_HEADERS, examples: selectUsed(examples, paths) },
  };
  return toJsonSchema(completed) as OpenAPIObject;
}

function completeOperation(method: string, operation: Operation, problemExamples: ProblemExamples): void {
  operation.security ??= [];
  describeScope(method, operation);
  if (WITHOUT_BODY.has(method) && !operation.requestBody) dropBodyProblems(operation.responses);
  for (const parameter of operation.parameters ?? []) {
    if (parameter.in === 'path') {
      const form = parameter.name === 'service' ? SERVICE_NAME_FORMAT.schema : { format: 'uuid' };
      parameter.schema = { ...parameter.schema, ...form };
    }
    if (parameter.schema) limitLength(parameter.schema);
    // Swagger UI sends an example, so an optional parameter would become a filter that the developer did not ask for.
    if (!parameter.required) delete parameter.schema?.example;
  }
  for (const [status, response] of Object.entries(operation.responses)) {
    const titles = Object.keys(response.content?.[PROBLEM]?.examples ?? {}).map(
      (code) => problemExamples[code]?.summary,
    );
    response.description ||= titles.join('; ') || (STATUS_CODES[status] ?? status);
    const names = toHeaderNames(status);
    const common = Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
    response.headers = { ...common, ...response.headers };
  }
}

/** Validations refuse a body with fields, because a target in a body that is not read would seem to count. */
function describeEmptyBody(schemas: Record<string, Schema>): NonNullable<Operation['requestBody']> {
  schemas.EmptyBody = { type: 'object', properties: {}, description: 'No fields. The body may be left out.' };
  return { required: false, content: { 'application/json': { schema: { $ref: '#/components/schemas/EmptyBody' } } } };
}

/** OpenAPI has no scopes for an apiKey scheme, so the description names them. */
function describeScope(method: string, operation: Operation): void {
  const needed = operation[SCOPE_EXTENSION];
  if (needed === undefined) return;
  Reflect.deleteProperty(operation, SCOPE_EXTENSION);
  const scopes = listAcceptedScopes(needed.scope, needed.isRead ? 'GET' : method.toUpperCase()).map(
    (each) => `\`${each}\``,
  );
  operation.description = [operation.description, `Scope of an operator: ${scopes.join(' or ')}.`]
    .filter((part) => part !== undefined && part !== '')
    .join('\n\n');
}

function dropBodyProblems(responses: Operation['responses']): void {
  for (const status of BODY_STATUSES) Reflect.deleteProperty(responses, status);
  for (const { examples } of Object.values(responses['400']?.content ?? {})) delete examples?.[BODY_EXAMPLE];
}

/**
 * Closes the schema of a JSON body, as validation does, and adds an example that can be sent as it is: the required
 * fields, or all when none is required. A form may have other fields (RFC 6749 §3.1).
 * @returns the example, by the name of the schema
 */
function completeRequest({ requestBody }: Operation, schemas: Record<string, Schema>): Record<string, object> {
  const examples: Record<string, object> = {};
  for (const [type, media] of Object.entries(requestBody?.content ?? {})) {
    const name = media.schema?.$ref?.split('/').at(-1) ?? '';
    const schema = schemas[name];
    if (!schema) continue;
    if (type === 'application/json') closeSchema(schema, schemas);
    const { properties = {} } = schema;
    const sent = schema.required ?? Object.keys(properties).filter((field) => properties[field]?.example !== undefined);
    examples[name] = { value: Object.fromEntries(sent.map((field) => [field, properties[field]?.example])) };
    media.examples = { [name]: { $ref: EXAMPLES_PATH + name } };
  }
  return examples;
}

function closeSchema(schema: Schema, schemas: Record<string, Schema>): void {
  schema.additionalProperties = false;
  for (const property of Object.values(schema.properties ?? {})) {
    limitLength(property);
    const item = schemas[property.items?.$ref?.split('/').at(-1) ?? ''];
    if (item) closeSchema(item, schemas);
  }
}

function limitLength(schema: Schema): void {
  if (schema.format === 'uuid') schema.maxLength = UUID_LENGTH;
}

/** Drops unused examples, because linters report components without a reference. */
function selectUsed(examples: Record<string, object>, paths: object): Record<string, object> {
  const text = JSON.stringify(paths);
  return Object.fromEntries(Object.entries(examples).filter(([name]) => text.includes(`"${EXAMPLES_PATH}${name}"`)));
}

/** OpenAPI 3.1 follows JSON Schema: `null` is a type, and a reference may have other members beside it. */
function toJsonSchema(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toJsonSchema);
  if (typeof value !== 'object' || value === null) return value;
  const { nullable, allOf, ...others } = value as Schema & Record<string, unknown>;
  const single = Array.isArray(allOf) && allOf.length === 1;
  const parts: object = single ? (allOf[0] as object) : allOf === undefined ? {} : { allOf };
  const rest: Record<string, unknown> = { ...parts, ...others };
  if (nullable === true && '$ref' in rest) {
    rest.anyOf = [{ $ref: rest.$ref }, { type: 'null' }];
    delete rest.$ref;
    delete rest.type;
  } else if (nullable === true) rest.type = [rest.type as string, 'null'];
  return Object.fromEntries(Object.entries(rest).map(([name, child]) => [name, toJsonSchema(child)]));
}

/** The headers of responses, as components of the OpenAPI document. */
const RESPONSE_HEADERS = {
  'X-Request-Id': {
    description: 'identifies the request in the logs of this service and in the audit log',
    schema: { type: 'string', format: 'uuid', example: EXAMPLES.id },
  },
  Location: {
    description: 'path of the new resource',
    schema: { type: 'string', format: 'uri-reference', example: `/api/v0/users/${EXAMPLES.id}` },
  },
  'WWW-Authenticate': {
    description: 'challenge of the door that refused the credential (RFC 9110 §11.6.1; RFC 6750 §3 for Bearer)',
    schema: { type: 'string', example: 'Bearer realm="platform-auth"' },
  },
  'Retry-After': {
    description: 'seconds to wait before the next try',
    schema: { type: 'integer', minimum: 1, example: 2 },
  },
  'RateLimit-Policy': {
    description: 'the limit: q tries in w seconds (draft-ietf-httpapi-ratelimit-headers)',
    schema: { type: 'string', example: '"refresh";q=600;w=60' },
  },
  RateLimit: {
    description: 'the remaining quota: r tries in the next t seconds',
    schema: { type: 'string', example: '"refresh";r=0;t=42' },
  },
} as const;

type HeaderName = keyof typeof RESPONSE_HEADERS;

const BY_STATUS: Readonly<Record<string, readonly HeaderName[]>> = {
  '201': ['Location'],
  '401': ['WWW-Authenticate'],
  '429': ['Retry-After', 'RateLimit-Policy', 'RateLimit'],
  '503': ['Retry-After'],
};

/** @returns the headers that every response with this status has */
function toHeaderNames(status: string): readonly HeaderName[] {
  return ['X-Request-Id', ...(BY_STATUS[status] ?? [])];
}
