import { STATUS_CODES } from 'node:http';
import type { OpenAPIObject } from '@nestjs/swagger';
import { createProblemExamples } from '../../problems/api-problems.js';
import { SCOPE_EXTENSION } from '../../access/require.js';
import { listAcceptedScopes, type Scope } from '../../common/names.js';
import { RESPONSE_HEADERS, toHeaderNames } from './response-headers.js';

// Adds what @nestjs/swagger cannot express, and what holds for every operation, so that no controller repeats it.

const EXAMPLES_PATH = '#/components/examples/';
const PROBLEM = 'application/problem+json';
const UUID_LENGTH = 36;
/** Methods whose requests have no body. */
const WITHOUT_BODY = new Set(['get', 'delete']);
const BODY_STATUSES = ['413', '415'];
const BODY_EXAMPLE = 'body_too_deep';

interface Schema {
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
  [SCOPE_EXTENSION]?: Scope;
  security?: object[];
  parameters?: { required?: boolean; schema?: Schema }[];
  requestBody?: { content: Record<string, Media> };
  responses: Record<string, Response>;
}
type ProblemExamples = ReturnType<typeof createProblemExamples>;
type Item = Record<string, Operation>;

/** @returns the document as OpenAPI 3.1, in the order of its tags */
export function completeDocument(created: OpenAPIObject): OpenAPIObject {
  // A copy, because its parts are metadata of the controllers, which every document shares.
  const document = structuredClone(created);
  const components = document.components ?? {};
  const schemas = (components.schemas ?? {}) as Record<string, Schema>;
  const problemExamples = createProblemExamples();
  const requestExamples: Record<string, object> = {};
  const items = document.paths as unknown as Record<string, Item>;
  for (const item of Object.values(items)) {
    for (const [method, operation] of Object.entries(item)) {
      completeOperation(method, operation, problemExamples);
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
  return toTypeLists(completed) as OpenAPIObject;
}

function completeOperation(method: string, operation: Operation, problemExamples: ProblemExamples): void {
  operation.security ??= [];
  describeScope(method, operation);
  if (WITHOUT_BODY.has(method)) dropBodyProblems(operation.responses);
  for (const { required, schema } of operation.parameters ?? []) {
    if (schema) limitLength(schema);
    // Swagger UI would send it: a filter that the developer did not ask for.
    if (!required) delete schema?.example;
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

/** An apiKey scheme has no scopes in OpenAPI: the description names them. */
function describeScope(method: string, operation: Operation): void {
  const scope = operation[SCOPE_EXTENSION];
  if (scope === undefined) return;
  Reflect.deleteProperty(operation, SCOPE_EXTENSION);
  const scopes = listAcceptedScopes(scope, method.toUpperCase()).map((each) => `\`${each}\``);
  operation.description = [operation.description, `Scope of an operator: ${scopes.join(' or ')}.`]
    .filter((part) => part !== undefined && part !== '')
    .join('\n\n');
}

function dropBodyProblems(responses: Operation['responses']): void {
  for (const status of BODY_STATUSES) Reflect.deleteProperty(responses, status);
  for (const { examples } of Object.values(responses['400']?.content ?? {})) delete examples?.[BODY_EXAMPLE];
}

/**
 * Closes the schema of a JSON body, as validation does, and gives it an example to be sent as it is: the required fields,
 * or all when none is required. A form may have other fields (RFC 6749 §3.1).
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

/** Linters report components that nothing refers to. */
function selectUsed(examples: Record<string, object>, paths: object): Record<string, object> {
  const text = JSON.stringify(paths);
  return Object.fromEntries(Object.entries(examples).filter(([name]) => text.includes(`"${EXAMPLES_PATH}${name}"`)));
}

/** OpenAPI 3.1 follows JSON Schema, where `null` is a type. */
function toTypeLists(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toTypeLists);
  if (typeof value !== 'object' || value === null) return value;
  const { nullable, ...rest } = value as Schema & Record<string, unknown>;
  if (nullable === true) rest.type = [rest.type as string, 'null'];
  return Object.fromEntries(Object.entries(rest).map(([name, child]) => [name, toTypeLists(child)]));
}
