import type { Request } from 'express';
import { ProblemException } from '../common/problem.exception.js';
import { problems } from '../common/problems.js';
import { isServiceName, SERVICE_NAME_DETAIL } from '../common/service-name.js';
import { refuseUnknownFields } from '../common/unknown-fields.js';

export const TARGET_HEADER = 'x-platform-target';

/**
 * The service that a forwarded app key was presented to, as that service names itself: in the body's `target` or in
 * `X-Platform-Target`.
 * @returns null when it does not name itself
 * @throws {ProblemException} validation_failed when one is not a service's name, when both were sent and differ, and for
 *   any other field: a misspelt target must not pass as none
 */
export function presentedTarget({ headers, body }: Request): string | null {
  refuseUnknownFields(body, 'target');
  const inHeader = headers[TARGET_HEADER];
  const inBody = (body as { target?: unknown } | undefined)?.target;
  if (inHeader !== undefined && !isServiceName(inHeader)) throw refused('', `X-Platform-Target ${SERVICE_NAME_DETAIL}`);
  if (inBody === undefined) return inHeader ?? null;
  if (!isServiceName(inBody)) throw refused('/target', SERVICE_NAME_DETAIL);
  if (inHeader !== undefined && inHeader !== inBody) throw refused('/target', 'must agree with X-Platform-Target');
  return inBody;
}

function refused(pointer: string, detail: string): ProblemException {
  return new ProblemException(problems.validationFailed, { errors: [{ pointer, detail }] });
}
