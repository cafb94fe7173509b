import { ProblemException, problems } from './problems.js';

/**
 * Creates the refusal of one field.
 * @param pointer JSON Pointer (RFC 6901) into the body or the query; empty for a header, and for all of it
 * @param detail what would be accepted; never the value
 */
export function createFieldProblem(pointer: string, detail: string): ProblemException {
  return new ProblemException(problems.validationFailed, { errors: [{ pointer, detail }] });
}

/** @throws {ProblemException} validation_failed, as {@link createFieldProblem} */
export function refuseField(pointer: string, detail: string): never {
  throw createFieldProblem(pointer, detail);
}

export const UNKNOWN_FIELD = 'is not a field of this request';

/**
 * Refuses unknown fields instead of ignoring them, because the caller would believe that they took effect.
 * @param body of a request, if it has one
 * @param known the only field that the request has
 * @throws {ProblemException} validation_failed
 */
export function refuseUnknownFields(body: unknown, known?: string): void {
  if (typeof body !== 'object' || body === null) return;
  const unknown = Object.keys(body).filter((name) => name !== known);
  if (unknown.length === 0) return;
  const errors = unknown.map((name) => ({ pointer: `/${toPointerToken(name)}`, detail: UNKNOWN_FIELD }));
  throw new ProblemException(problems.validationFailed, { errors });
}

/** @returns the name as a JSON Pointer token (RFC 6901); `?` for a name that may be a payload */
export function toPointerToken(name: string): string {
  return /^([a-z_]{1,32}|\d{1,3})$/.test(name) ? name : '?';
}
