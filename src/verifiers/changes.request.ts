import { isUtf8 } from 'node:buffer';
import { z } from 'zod';
import { isId } from '../common/ids.js';
import { ProblemException, problems } from '../problems/problems.js';

/** Never zod's own words: they repeat the names of unknown fields. */
const notAnObject = {
  error: ({ code }: { readonly code?: string }) =>
    code === 'unrecognized_keys' ? 'has a field that is not part of this request' : 'must be an object',
};
export const MAX_USES = 500;
const MAX_AGE_MS = 3_600_000;

/** A key that a verifier accepted from its memory. */
const use = z.strictObject(
  {
    kind: z.enum(['node', 'app'], { error: 'must be node or app' }),
    id: z.string({ error: 'must be a valid UUID' }).refine(isId, 'must be a valid UUID'),
    ago_ms: z
      .number({ error: 'must be a number of milliseconds' })
      .transform((ago) => Math.min(MAX_AGE_MS, Math.max(0, Math.round(ago)))),
  },
  notAnObject,
);

const body = z.strictObject(
  {
    // What is not a cursor of this service is answered with a reset.
    cursor: z.string().optional().catch(undefined),
    used: z.array(use, { error: 'must be a list' }).max(MAX_USES, `must have at most ${MAX_USES} entries`).default([]),
  },
  notAnObject,
);

export type ChangesRequest = z.output<typeof body>;
export type ReportedUse = z.output<typeof use>;

/**
 * Parses a poll of a verifier. To be called after authentication: validation of a large body costs milliseconds.
 * @param bytes undefined without a body
 * @throws {ProblemException} malformed_request; validation_failed
 */
export function parseChangesRequest(bytes: Buffer | undefined): ChangesRequest {
  const parsed = body.safeParse(parseJson(bytes));
  if (parsed.success) return parsed.data;
  const errors = parsed.error.issues.map(({ path, message }) => ({
    pointer: path.map((part) => `/${String(part)}`).join(''),
    detail: message,
  }));
  throw new ProblemException(problems.validationFailed, { errors });
}

function parseJson(bytes: Buffer | undefined): unknown {
  if (!bytes || bytes.length === 0) return {};
  try {
    if (isUtf8(bytes)) return JSON.parse(bytes.toString());
  } catch {
    // Answered below.
  }
  throw new ProblemException(problems.malformedRequest);
}
