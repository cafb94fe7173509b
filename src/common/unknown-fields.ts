import { ProblemException } from './problem.exception.js';
import { problems } from './problems.js';

export const UNKNOWN_FIELD = 'is not a field of this request';

/**
 * Refuses what a caller misplaced, instead of ignoring it: the caller believes that it counted.
 * @param body of a request, if there was one
 * @param known the one field that it may have
 * @throws {ProblemException} validation_failed
 */
export function refuseUnknownFields(body: unknown, known?: string): void {
  if (typeof body !== 'object' || body === null) return;
  const unknown = Object.keys(body).filter((name) => name !== known);
  if (unknown.length === 0) return;
  const errors = unknown.map((name) => ({ pointer: `/${pointerToken(name)}`, detail: UNKNOWN_FIELD }));
  throw new ProblemException(problems.validationFailed, { errors });
}

/** A field's name as a JSON Pointer token (RFC 6901), where it looks like a field's name and not like a payload. */
export function pointerToken(name: string): string {
  return /^([a-z_]{1,32}|\d{1,3})$/.test(name) ? name : '?';
}
