import { applyDecorators } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional, ApiResponse, getSchemaPath } from '@nestjs/swagger';
import { toProblemBody } from './problem-body.js';
import type { Problem } from './problem.js';

const PROBLEMS_OF_ROUTE = 'problems';
const EXAMPLE_REQUEST_ID = '01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d11';

const THROTTLE_HEADERS = {
  'Retry-After': { description: 'seconds to wait', schema: { type: 'integer' as const, minimum: 1 } },
  'RateLimit-Policy': {
    description: 'the limit: q tries in w seconds (draft-ietf-httpapi-ratelimit-headers)',
    schema: { type: 'string' as const },
    example: '"refresh";q=600;w=60',
  },
  RateLimit: {
    description: 'the remaining quota: r tries in the next t seconds',
    schema: { type: 'string' as const },
    example: '"refresh";r=0;t=42',
  },
};

export class FieldErrorSchema {
  @ApiProperty({ description: 'JSON Pointer (RFC 6901) to the rejected field', example: '/email' })
  pointer!: string;

  @ApiProperty({ description: 'what would be accepted', example: 'must be an e-mail address' })
  detail!: string;
}

/** The body of every error (RFC 9457). */
export class ProblemSchema {
  @ApiProperty({ type: String, format: 'uri-reference' })
  type!: string;

  @ApiProperty()
  title!: string;

  @ApiProperty({ type: 'integer', minimum: 400, maximum: 599 })
  status!: number;

  @ApiProperty()
  detail!: string;

  @ApiProperty({ type: String, format: 'uri-reference', description: 'identifies this occurrence' })
  instance!: string;

  @ApiProperty({ description: 'stable identifier to branch on', pattern: '^[a-z_]+$' })
  code!: string;

  @ApiProperty({ description: 'as in the X-Request-Id header and in the logs' })
  request_id!: string;

  @ApiPropertyOptional({ type: [FieldErrorSchema], description: 'with status 400' })
  errors?: FieldErrorSchema[];

  @ApiPropertyOptional({ enum: [false], description: 'with a 401 of the internal validations' })
  valid?: false;
}

/** Documents the problems that a route may answer with, one example each. Repeated use adds problems. */
export function ApiProblems(...added: Problem[]): MethodDecorator {
  return (target, key, descriptor) => {
    const handler = descriptor.value as object;
    const known = (Reflect.getMetadata(PROBLEMS_OF_ROUTE, handler) ?? []) as Problem[];
    const all = [...new Set([...known, ...added])];
    Reflect.defineMetadata(PROBLEMS_OF_ROUTE, all, handler);
    const statuses = [...new Set(all.map(({ status }) => status))];
    applyDecorators(...statuses.map((status) => describeResponse(all.filter((problem) => problem.status === status))))(
      target,
      key,
      descriptor,
    );
  };
}

function describeResponse(ofOneStatus: Problem[]): MethodDecorator {
  const [first] = ofOneStatus;
  if (!first) throw new Error('A response without a problem');
  return ApiResponse({
    status: first.status,
    description: ofOneStatus.map(({ title }) => title).join('; '),
    ...(first.status === 429 && { headers: THROTTLE_HEADERS }),
    content: {
      'application/problem+json': {
        schema: { $ref: getSchemaPath(ProblemSchema) },
        examples: Object.fromEntries(ofOneStatus.map((problem) => [problem.code, { value: createExample(problem) }])),
      },
    },
  });
}

function createExample(problem: Problem): object {
  const errors =
    problem.code === 'validation_failed' ? [{ pointer: '/email', detail: 'must be an e-mail address' }] : [];
  return toProblemBody(problem, EXAMPLE_REQUEST_ID, errors);
}
