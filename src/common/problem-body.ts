import { MAX_ERRORS, type FieldError, type Problem } from './problems.js';

/** The body that a caller gets (RFC 9457 §3). `instance` names the occurrence, never the path: a path may hold anything. */
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

/** The URI reference that names a problem's kind, as the README lists it. */
export function toProblemType(problem: Problem): string {
  return `/problems/${problem.code.replaceAll('_', '-')}`;
}
