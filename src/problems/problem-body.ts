import { MAX_ERRORS, type FieldError, type Problem } from './problem.js';

/**
 * Creates the body of a problem response (RFC 9457 §3). `instance` names the occurrence and not the path, which may
 * contain anything.
 */
export function toProblemBody(problem: Problem, requestId: string, errors: readonly FieldError[] = []) {
  return {
    type: toProblemType(problem),
    title: problem.title,
    status: problem.status,
    detail: problem.detail,
    instance: `urn:request:${requestId}`,
    code: problem.code,
    request_id: requestId,
    ...problem.extension,
    ...(problem.status === 400 && { errors: errors.slice(0, MAX_ERRORS) }),
  };
}

/** @returns the URI reference of a problem type, as the README lists it */
export function toProblemType(problem: Problem): string {
  return `/problems/${problem.code.replaceAll('_', '-')}`;
}
