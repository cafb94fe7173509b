import { Ajv } from 'ajv';
import formats from 'ajv-formats';

const METHODS = ['get', 'put', 'post', 'delete', 'patch', 'head', 'options', 'trace'];

/** The service's own OpenAPI document: its operations, and validators of their schemas. */
export class ApiDocument {
  #ajv = new Ajv({ strict: false, allErrors: true });
  #coercing = new Ajv({ strict: false, coerceTypes: true });
  #validators = new Map();

  constructor(document) {
    for (const ajv of [this.#ajv, this.#coercing]) {
      formats.default(ajv);
      ajv.addSchema({ $id: 'document', ...document });
    }
    this.document = document;
    this.operations = Object.entries(document.paths).flatMap(([template, item]) =>
      METHODS.filter((method) => item[method]).map((method) => this.#operation(template, method, item[method])),
    );
    this.problemSchema = document.components.schemas.Problem;
  }

  #operation(template, method, { parameters = [], requestBody, security, responses }) {
    const body = this.resolve(requestBody?.content?.['application/json']?.schema);
    const query = parameters.filter((parameter) => parameter.in === 'query');
    return {
      id: `${method.toUpperCase()} ${template}`,
      method: method.toUpperCase(),
      template,
      pattern: new RegExp(`^${template.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+')}$`),
      query: query.map(({ name, required, schema }) => ({ name, required, schema: this.resolve(schema) })),
      body: body && { ...body, additionalProperties: false },
      bodyRequired: requestBody?.required === true && (body?.required?.length ?? 0) > 0,
      security: security ?? [],
      responses,
      hashes: JSON.stringify(responses['503'] ?? {}).includes('hashing_busy'),
    };
  }

  /** @returns the schema that a reference names */
  resolve(schema) {
    const name = schema?.$ref?.split('/').at(-1);
    return name ? this.document.components.schemas[name] : schema;
  }

  /** @returns the operation of a path, matched as the router does: case-sensitive, with or without the prefix */
  operationAt(method, target) {
    const path = target.split(/[?#]/)[0];
    const full = /^\/(auth|users|admin)(\/|$)/.test(path) ? `/api/v0${path}` : path;
    const wanted = method === 'HEAD' ? 'GET' : method;
    const found = this.operations.filter((operation) => operation.method === wanted && operation.pattern.test(full));
    return found.sort((a, b) => a.template.split('{').length - b.template.split('{').length)[0];
  }

  /** @returns what violates a schema, or undefined. With `coerce`, a string may hold a number, as in a query. */
  difference(schema, value, coerce = false) {
    const ajv = coerce ? this.#coercing : this.#ajv;
    let validate = this.#validators.get(schema);
    if (!validate) {
      validate = ajv.compile(JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"document#/')));
      this.#validators.set(schema, validate);
    }
    return validate(value) ? undefined : ajv.errorsText(validate.errors);
  }
}
