import type { NestExpressApplication } from '@nestjs/platform-express';
import type { OpenAPIObject } from '@nestjs/swagger';
import { Ajv, type ValidateFunction } from 'ajv';
import formats from 'ajv-formats';
import type { NextFunction, Request, Response } from 'express';
import { readFileSync } from 'node:fs';
import { fromRoot } from './from-root.js';
import { undocumented } from './run-log.js';

interface Documented {
  readonly content?: Record<string, { schema: object; examples?: object }>;
}

/** Shared by all applications, because compiling the validators takes CPU. */
let answers: DocumentedAnswers | undefined;

/** Validates every response of an application. Call it before the application installs its own middleware. */
export function recordAnswers(app: NestExpressApplication): void {
  app.use((request: Request, response: Response, next: NextFunction) => {
    const end = response.end.bind(response) as (...written: unknown[]) => Response;
    response.end = ((...written: unknown[]) => {
      const [body] = written;
      answers ??= new DocumentedAnswers();
      const difference = answers.difference(request, response, Buffer.isBuffer(body) ? body.toString() : body);
      if (difference) undocumented.push(difference);
      return end(...written);
    }) as Response['end'];
    next();
  });
}

class DocumentedAnswers {
  private readonly ajv = new Ajv({ strict: false, allErrors: true });
  private readonly validators = new Map<object, ValidateFunction>();

  /** The document of all routes, which the build has made. */
  private readonly document = JSON.parse(readFileSync(fromRoot('dist/docs/openapi.json'), 'utf8')) as OpenAPIObject;

  constructor() {
    formats.default(this.ajv);
    // Wider than the format, because a test of the search inserts an address with a backslash.
    this.ajv.addFormat('email', /^[^@\s]+@[^@\s]+$/);
    this.ajv.addSchema({ $id: 'document', ...this.document });
  }

  /** @returns what differs from the document; undefined when nothing differs, or when the router found no route */
  difference(request: Request, response: Response, body: unknown): string | undefined {
    const path = (request.route as { path?: unknown } | undefined)?.path;
    if (typeof path !== 'string') return undefined;
    const template = path.replace(/:(\w+)/g, '{$1}');
    const item = this.document.paths[template];
    // The router also reports a route for HEAD without GET, and 405 is documented once for all paths.
    if (!item || response.statusCode === 405) return undefined;
    const method = request.method.toLowerCase() as 'get';
    const where = `${request.method} ${template} → ${response.statusCode}`;
    const documented = item[method]?.responses[response.statusCode] as Documented | undefined;
    if (!documented) return `${where} is not documented`;
    const type = String(response.getHeader('content-type') ?? '').split(';')[0]!;
    if (typeof body !== 'string' || body === '') return documented.content ? `${where} has no body` : undefined;
    const { schema, examples = {} } = documented.content?.[type] ?? {};
    if (!schema) return `${where} has an undocumented body of type ${type}`;
    const answer = JSON.parse(body) as { readonly code: string };
    const isProblem = type === 'application/problem+json';
    if (isProblem && !(answer.code in examples)) return `${where}: ${answer.code} is not documented`;
    const validate = this.validatorOf(schema);
    return validate(answer) ? undefined : `${where}: ${this.ajv.errorsText(validate.errors)}`;
  }

  private validatorOf(schema: object): ValidateFunction {
    let validate = this.validators.get(schema);
    if (!validate) {
      const absolute = JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"document#/')) as object;
      validate = this.ajv.compile(absolute);
      this.validators.set(schema, validate);
    }
    return validate;
  }
}
