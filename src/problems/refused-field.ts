import { ProblemException } from './problem.exception.js';
import { problems } from './problems.js';

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
