import { isUtf8 } from 'node:buffer';
import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import * as z from 'zod';
import { ID } from '../../foundation/common/fields.js';
import { isId } from '../../foundation/common/ids.js';
import { parseJson } from '../../foundation/common/json.js';
import { CACHED_KIND_NAMES, type KeyKindName } from '../../foundation/common/key-kinds.js';
import { EXAMPLES, APP_SCOPE_FORMAT } from '../../foundation/common/names.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { MAX_CURSOR_LENGTH } from '../../../packages/lease/src/change-feed.js';

/** Replaces zod's message, which would echo the names of unknown fields. */
const notAnObject = {
  error: ({ code }: { readonly code?: string }) =>
    code === 'unrecognized_keys' ? 'has a field that is not part of this request' : 'must be an object',
};

const MAX_USES = 500;
const MAX_AGE_MS = 3_600_000;

/** A verifier reports that it accepted this key from its cache. */
const use = z
  .strictObject(
    {
      kind: z.enum(CACHED_KIND_NAMES, { error: `must be ${CACHED_KIND_NAMES.join(' or ')}` }),
      id: z.string({ error: 'must be a valid UUID' }).refine(isId, 'must be a valid UUID'),
      ago_ms: z
        .number({ error: 'must be a number of milliseconds' })
        .transform((ago) => Math.min(MAX_AGE_MS, Math.max(0, Math.round(ago)))),
      scope: z
        .string({ error: APP_SCOPE_FORMAT.detail })
        .refine(APP_SCOPE_FORMAT.isName, APP_SCOPE_FORMAT.detail)
        .optional(),
      previous: z.boolean({ error: 'must be true or false' }).default(false),
    },
    notAnObject,
  )
  .refine(({ kind, scope }) => kind === 'app' || scope === undefined, {
    path: ['scope'],
    error: 'must be absent: nodes have no scopes',
  });

const body = z.strictObject(
  {
    // An unreadable cursor is answered with a reset, so that the verifier clears its cache instead of failing.
    cursor: z.string().optional().catch(undefined),
    used: z.array(use, { error: 'must be a list' }).max(MAX_USES, `must have at most ${MAX_USES} entries`).default([]),
  },
  notAnObject,
);

type ChangesRequest = z.output<typeof body>;

export type ReportedUse = z.output<typeof use>;

/** Call it after authentication, because validation of a large body costs milliseconds. */
export function parseChangesRequest(bytes: Buffer | undefined): ChangesRequest {
  const parsed = body.safeParse(parseBody(bytes));
  if (parsed.success) return parsed.data;
  const errors = parsed.error.issues.map(({ path, message }) => ({
    pointer: path.map((part) => `/${String(part)}`).join(''),
    detail: message,
  }));
  throw new ProblemException(problems.validationFailed, { errors });
}

function parseBody(bytes: Buffer | undefined): unknown {
  if (!bytes || bytes.length === 0) return {};
  const parsed = isUtf8(bytes) ? parseJson(bytes.toString()) : undefined;
  if (parsed === undefined) throw new ProblemException(problems.malformedRequest);
  return parsed;
}

export const CURSOR = `${'0123456789abcdef'.repeat(4)}/4711:4713:4711`;

class UseBody {
  @ApiProperty({ enum: CACHED_KIND_NAMES, enumName: 'UsedKind' }) kind!: KeyKindName;
  @ApiProperty(ID) id!: string;
  @ApiProperty({ type: 'integer', description: 'clamped to 0 to 3,600,000', example: 1_200 }) ago_ms!: number;

  @ApiPropertyOptional({
    ...APP_SCOPE_FORMAT.schema,
    description: 'of an app: the scope that the call needed',
    example: EXAMPLES.appScope,
  })
  scope?: string;

  @ApiPropertyOptional({
    description: 'it was the key before the last rotation: its yes said X-Platform-Key: previous',
  })
  previous?: boolean;
}

/** For the OpenAPI document only: the body is parsed after authentication, by `parseChangesRequest`. */
export class ChangesBody {
  @ApiPropertyOptional({
    type: String,
    description: 'the cursor of the last answer',
    maxLength: MAX_CURSOR_LENGTH,
    example: CURSOR,
  })
  cursor?: string;

  @ApiPropertyOptional({ type: [UseBody], maxItems: MAX_USES, description: 'keys that were accepted from memory' })
  used?: UseBody[];
}
