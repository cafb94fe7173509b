import { ApiHeader } from '@nestjs/swagger';
import type { Request } from 'express';
import { refuseField } from '../problems/problems.js';

const MAX_LENGTH = 255;
/** Without blanks: Node.js joins a repeated header with a comma and a blank. */
const PATTERN = '^[!-~]{1,255}$';
const IDEMPOTENCY_KEY = new RegExp(PATTERN);

/** Reads the header of draft-ietf-httpapi-idempotency-key-header, with or without its quotes. */
export function readIdempotencyKey({ headers }: Request): string | undefined {
  const sent = headers['idempotency-key'];
  if (sent === undefined) return undefined;
  if (typeof sent === 'string' && IDEMPOTENCY_KEY.test(sent)) return sent;
  return refuseField('', 'Idempotency-Key must be 1 to 255 printable ASCII characters without blanks');
}

export const ApiIdempotencyKey = (description: string): MethodDecorator =>
  ApiHeader({
    name: 'Idempotency-Key',
    required: false,
    schema: { type: 'string', pattern: PATTERN, maxLength: MAX_LENGTH },
    description,
  });
