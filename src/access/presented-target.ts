import type { Request } from 'express';
import { refuseField } from '../problems/refused-field.js';
import { isServiceName, SERVICE_NAME_DETAIL } from '../common/service-name.js';
import { refuseUnknownFields } from '../problems/unknown-fields.js';

export const TARGET_HEADER = 'x-platform-target';

/**
 * Reads the name of the service that forwards an app key for validation: from the body's `target`, or from
 * `X-Platform-Target`.
 * @returns null when the service does not name itself
 * @throws {ProblemException} validation_failed when one is not a service's name, when both were sent and differ, and
 *   for any other field: a misspelt target must not count as absent
 */
export function readPresentedTarget({ headers, body }: Request): string | null {
  refuseUnknownFields(body, 'target');
  const inHeader = headers[TARGET_HEADER];
  const inBody = (body as { target?: unknown } | undefined)?.target;
  if (inHeader !== undefined && !isServiceName(inHeader)) refuseField('', `X-Platform-Target ${SERVICE_NAME_DETAIL}`);
  if (inBody === undefined) return inHeader ?? null;
  if (!isServiceName(inBody)) refuseField('/target', SERVICE_NAME_DETAIL);
  if (inHeader !== undefined && inHeader !== inBody) refuseField('/target', 'must agree with X-Platform-Target');
  return inBody;
}
