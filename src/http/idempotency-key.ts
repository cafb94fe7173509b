import type { Request } from 'express';
import { refuseField } from '../problems/refused-field.js';

export const MAX_IDEMPOTENCY_KEY_LENGTH = 255;
/** Without blanks: Node.js joins a repeated header with a comma and a blank. */
export const IDEMPOTENCY_KEY_PATTERN = '^[!-~]{1,255}$';
const IDEMPOTENCY_KEY = new RegExp(IDEMPOTENCY_KEY_PATTERN);

/**
 * Reads `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header), with or without its quotes.
 * @returns undefined when it was not sent
 * @throws {ProblemException} validation_failed
 */
export function readIdempotencyKey({ headers }: Request): string | undefined {
  const sent = headers['idempotency-key'];
  if (sent === undefined) return undefined;
  if (typeof sent === 'string' && IDEMPOTENCY_KEY.test(sent)) return sent;
  return refuseField('', 'Idempotency-Key must be 1 to 255 printable ASCII characters without blanks');
}
