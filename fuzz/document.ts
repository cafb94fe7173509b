import { Ajv, type AnySchema, type Options, type ValidateFunction } from 'ajv';
import formats from 'ajv-formats';
import { z } from 'zod';

export const FORM_TYPE = 'application/x-www-form-urlencoded';
const METHODS = ['get', 'put', 'post', 'delete', 'patch', 'head', 'options', 'trace'];

/** The members of a JSON schema from which requests are generated; validators use all members. */
export interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly enum?: readonly unknown[];
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly uniqueItems?: boolean;
}

const schema: z.ZodType<Schema> = z.looseObject({
  $ref: z.string().exactOptional(),
  type: z.union([z.string(), z.array(z.string())]).exactOptional(),
  format: z.string().exactOptional(),
  enum: z.array(z.unknown()).exactOptional(),
  pattern: z.string().exactOptional(),
  minLength: z.int().exactOptional(),
  maxLength: z.int().exactOptional(),
  minimum: z.number().exactOptional(),
  maximum: z.number().exactOptional(),
  required: z.array(z.string()).exactOptional(),
  properties: z
    .record(
      z.string(),
      z.lazy(() => schema),
    )
    .exactOptional(),
  items: z.lazy(() => schema).exactOptional(),
  minItems: z.int().exactOptional(),
  maxItems: z.int().exactOptional(),
  uniqueItems: z.boolean().exactOptional(),
});
const content = z.record(z.string(), z.looseObject({ schema: schema.exactOptional() }));
const response = z.looseObject({ content: content.exactOptional() });
const parameter = z.object({ name: z.string(), in: z.string(), required: z.boolean().default(false), schema });
const operation = z.object({
  parameters: z.array(parameter).default([]),
  requestBody: z.object({ required: z.boolean().default(false), content }).optional(),
  security: z.array(z.record(z.string(), z.array(z.string()))).default([]),
  responses: z.record(z.string(), response),
});
const openApi = z.looseObject({
  paths: z.record(z.string(), z.record(z.string(), z.unknown())),
  components: z.looseObject({ schemas: z.record(z.string(), schema) }),
});

export interface Parameter {
  readonly name: string;
  readonly schema: Schema;
}

/** The schemes of one door, all of which a request must satisfy. */
export type Requirement = Readonly<Record<string, readonly string[]>>;

export interface Operation {
  /** `POST /internal/validate-app` */
  readonly id: string;
  readonly method: string;
  readonly template: string;
  readonly pattern: RegExp;
  readonly query: readonly Parameter[];
  readonly requiredHeaders: readonly Parameter[];
  readonly body: Schema | undefined;
  /** The schema of what may be accepted, which may be more than is documented. */
  readonly acceptedBody: Schema | undefined;
  readonly bodyRequired: boolean;
  readonly isForm: boolean;
  /** Any one of them suffices. */
  readonly security: readonly Requirement[];
  readonly responses: Readonly<Record<string, z.output<typeof response>>>;
  /** Whether it may answer 503 because the hashing queue is full. */
  readonly hashes: boolean;
  /** Whether gateways pass requests of any method, path below and body on to it. */
  readonly isGateway: boolean;
}

/** The service's own OpenAPI document: its operations, and validators of their schemas. */
export class ApiDocument {
  readonly operations: readonly Operation[];
  readonly problemSchema: Schema;
  private readonly document: z.output<typeof openApi>;
  private readonly validators: Validators;
  private readonly coercing: Validators;

  /**
   * @param json the document as the service returned it
   * @throws when it is not an OpenAPI document
   */
  constructor(json: unknown) {
    this.document = openApi.parse(json);
    this.validators = new Validators(this.document, { allErrors: true });
    this.coercing = new Validators(this.document, { coerceTypes: true });
    this.problemSchema = this.find({ $ref: '#/components/schemas/Problem' });
    this.operations = Object.entries(this.document.paths).flatMap(([template, item]) =>
      METHODS.filter((method) => item[method]).map((method) => this.toOperation(template, method, item[method])),
    );
  }

  /**
   * @returns the operation of a path, matched as the router does: case-sensitive, with or without the prefix, and a
   * literal segment before an id, even when only the id has the method
   */
  operationAt(method: string, target: string): Operation | undefined {
    const [path = ''] = target.split(/[?#]/);
    const full = /^\/(auth|users|admin)(\/|$)/.test(path) ? `/api/v0${path}` : path;
    const wanted = method === 'HEAD' ? 'GET' : method;
    const here = this.operations.filter((one) => one.pattern.test(full));
    const [first] = here.sort((a, b) => a.template.split('{').length - b.template.split('{').length);
    return here.find((one) => one.template === first?.template && (one.isGateway || one.method === wanted));
  }

  /**
   * @param coerce allows a string to hold a number, as in a query
   * @returns what violates a schema, or undefined
   */
  difference(wanted: Schema, value: unknown, coerce = false): string | undefined {
    return (coerce ? this.coercing : this.validators).difference(wanted, value);
  }

  private toOperation(template: string, method: string, json: unknown): Operation {
    const { parameters, requestBody, security, responses } = operation.parse(json);
    const form = requestBody?.content[FORM_TYPE]?.schema;
    const wanted = requestBody?.content['application/json']?.schema;
    // A form may have more fields (RFC 6749 §3.2).
    const body = form ? this.resolve(form) : wanted && { ...this.resolve(wanted), additionalProperties: false };
    const isGateway = template.startsWith('/internal/authorize/');
    const path = template.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+');
    const list = (where: string): Parameter[] =>
      parameters
        .filter((one) => one.in === where && (where === 'query' || one.required))
        .map((one) => ({ name: one.name, schema: this.resolve(one.schema) }));
    return {
      id: `${method.toUpperCase()} ${template}`,
      method: method.toUpperCase(),
      template,
      pattern: new RegExp(`^${path}${isGateway ? '(/.*)?' : ''}$`),
      query: list('query'),
      requiredHeaders: list('header'),
      body,
      acceptedBody: body && template === '/internal/changes' ? tolerate(body) : body,
      bodyRequired: requestBody?.required === true && (body?.required?.length ?? 0) > 0,
      isForm: form !== undefined,
      security,
      responses,
      hashes: JSON.stringify(responses['503'] ?? {}).includes('hashing_busy'),
      isGateway,
    };
  }

  /** @returns the schema that a reference names, with its members resolved too */
  private resolve(given: Schema): Schema {
    const { items, properties, ...schema } = this.find(given);
    const members = Object.entries(properties ?? {}).map(([name, member]) => [name, this.resolve(member)] as const);
    return {
      ...schema,
      ...(items && { items: this.resolve(items) }),
      ...(properties && { properties: Object.fromEntries(members) }),
    };
  }

  private find(given: Schema): Schema {
    const name = given.$ref?.split('/').at(-1);
    if (name === undefined) return given;
    const named = this.document.components.schemas[name];
    if (!named) throw new Error(`The document has no schema ${name}`);
    return named;
  }
}

/** By contract, an unknown cursor is answered with a reset and never with 400, and times are rounded. */
const TOLERATED: Readonly<Record<string, Schema>> = { cursor: {}, ago_ms: { type: 'number' } };

function tolerate({ items, properties, ...schema }: Schema): Schema {
  const members = Object.entries(properties ?? {}).map(
    ([name, member]) => [name, TOLERATED[name] ?? tolerate(member)] as const,
  );
  return {
    ...schema,
    ...(items && { items: tolerate(items) }),
    ...(properties && { properties: Object.fromEntries(members) }),
  };
}

/** Compiles each schema once. */
class Validators {
  private readonly ajv: Ajv;
  private readonly compiled = new Map<Schema, ValidateFunction>();

  constructor(document: object, options: Options) {
    this.ajv = new Ajv({ strict: false, ...options });
    formats.default(this.ajv);
    this.ajv.addSchema({ $id: 'document', ...document });
  }

  difference(wanted: Schema, value: unknown): string | undefined {
    const validate = this.compiled.get(wanted) ?? this.compile(wanted);
    return validate(value) ? undefined : this.ajv.errorsText(validate.errors);
  }

  private compile(wanted: Schema): ValidateFunction {
    const text = JSON.stringify(wanted).replaceAll('"#/', '"document#/');
    const validate = this.ajv.compile(JSON.parse(text) as AnySchema);
    this.compiled.set(wanted, validate);
    return validate;
  }
}
