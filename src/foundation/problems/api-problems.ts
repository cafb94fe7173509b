import {
  ApiExtraModels,
  ApiProperty,
  ApiPropertyOptional,
  ApiResponse,
  ApiSchema,
  getSchemaPath,
} from '@nestjs/swagger';
import { EXAMPLES, OPERATOR_SCOPES, SECOND_FACTOR_METHODS, type SecondFactorMethod } from '../common/names.js';
import { MAX_ERRORS, problems, toProblemBody, type Problem } from './problems.js';

const PROBLEMS_OF_ROUTE = 'problems';
const OTHER_FORM_OF_ROUTE = 'other form of problems';

type Schema = abstract new (...parameters: never[]) => unknown;

@ApiSchema({ name: 'FieldError' })
class FieldErrorSchema {
  @ApiProperty({ description: 'JSON Pointer (RFC 6901) to the rejected field', example: '/email' }) pointer!: string;
  @ApiProperty({ description: 'what would be accepted', example: 'must be an e-mail address' }) detail!: string;
}

/** The body of every error (RFC 9457). */
@ApiSchema({ name: 'Problem' })
export class ProblemSchema {
  @ApiProperty({ type: String, format: 'uri-reference' }) type!: string;
  @ApiProperty() title!: string;
  @ApiProperty({ type: 'integer', minimum: 400, maximum: 599 }) status!: number;
  @ApiProperty() detail!: string;
  @ApiProperty({ type: String, format: 'uri-reference', description: 'identifies this occurrence' }) instance!: string;

  @ApiProperty({
    description: 'stable identifier to branch on',
    enum: Object.values(problems).map(({ code }) => code),
    enumName: 'ProblemCode',
  })
  code!: string;

  @ApiProperty({ description: 'as in the X-Request-Id header and in the logs' }) request_id!: string;

  @ApiPropertyOptional({ type: [FieldErrorSchema], maxItems: MAX_ERRORS, description: 'with status 400' })
  errors?: FieldErrorSchema[];

  @ApiPropertyOptional({ enum: [false], description: 'with a 401 of the internal validations' }) valid?: false;

  @ApiPropertyOptional({
    type: 'array',
    items: { type: 'string' },
    maxItems: OPERATOR_SCOPES.length,
    description: 'with missing_scope: one of these is needed',
  })
  scopes?: string[];

  @ApiPropertyOptional({
    enum: SECOND_FACTOR_METHODS,
    enumName: 'SecondFactorMethod',
    isArray: true,
    description: 'with second_factor_required and fresh_second_factor_required: the factors that are accepted',
  })
  methods?: SecondFactorMethod[];

  @ApiPropertyOptional({
    type: String,
    description: 'with second_factor_required and second_factor_enrolment_required: single use, for 5 minutes',
  })
  challenge?: string;

  @ApiPropertyOptional({
    type: 'object',
    additionalProperties: true,
    description: 'beside methods, if passkey is one of them: options of navigator.credentials.get()',
  })
  passkey_options?: object;
}

/** Documents the problems of a route, with one example each. Further uses on the same route add problems. */
export function ApiProblems(...added: Problem[]): MethodDecorator {
  return (target, key, descriptor) => {
    const handler = descriptor.value as object;
    const known = (Reflect.getMetadata(PROBLEMS_OF_ROUTE, handler) ?? []) as Problem[];
    const all = [...new Set([...known, ...added])];
    Reflect.defineMetadata(PROBLEMS_OF_ROUTE, all, handler);
    for (const status of new Set(all.map((problem) => problem.status))) {
      const codes = all.filter((problem) => problem.status === status).map(({ code }) => code);
      describeResponse(status, codes)(target, key, descriptor);
    }
  };
}

/** A route that writes errors of these statuses in another form. The last decorator of the route, so that it applies first. */
export function ApiErrorsAs(schema: Schema, ...statuses: number[]): MethodDecorator {
  return (target, key, descriptor) => {
    Reflect.defineMetadata(OTHER_FORM_OF_ROUTE, { schema, statuses }, descriptor.value as object);
    ApiExtraModels(schema)(target, key, descriptor);
  };
}

/** Leaves the description to `completeDocument`, because each use of the decorator would repeat it here. */
function describeResponse(status: number, codes: string[]): MethodDecorator {
  const schema = { $ref: getSchemaPath(ProblemSchema) };
  const examples = Object.fromEntries(codes.map((code) => [code, { $ref: `#/components/examples/${code}` }]));
  return (target, key, descriptor) => {
    const other = Reflect.getMetadata(OTHER_FORM_OF_ROUTE, descriptor.value as object) as
      | { readonly schema: Schema; readonly statuses: readonly number[] }
      | undefined;
    // Tools that know no order of preference take the first.
    const content = {
      ...(other?.statuses.includes(status) && {
        'application/json': { schema: { $ref: getSchemaPath(other.schema) } },
      }),
      'application/problem+json': { schema, examples },
    };
    ApiResponse({ status, content })(target, key, descriptor);
  };
}

/** @returns the examples that {@link ApiProblems} refers to, for the components of the OpenAPI document */
export function createProblemExamples(): Record<string, { summary: string; value: object }> {
  const errors = [{ pointer: '/email', detail: 'must be an e-mail address' }];
  const examples = Object.values(problems).map((problem) => {
    const value = toProblemBody(problem, EXAMPLES.id, problem === problems.validationFailed ? errors : []);
    return [problem.code, { summary: problem.title, value }] as const;
  });
  return Object.fromEntries(examples);
}
