import type { Request } from 'express';
import { createRandomId } from './ids.js';

const SANE = /^[A-Za-z0-9._-]{1,128}$/;
/** Our own prefixes, and runs as long as those of keys and tokens: the caller put a secret into the wrong header. */
const LOOKS_SECRET = /pa_(rt|node|app)_|[A-Za-z0-9_]{40}/;
const REQUEST_ID = Symbol('request id');

/** The id of a request, always of our making: a caller cannot choose what stands in the audit log. */
export function getRequestId(request: Request & { [REQUEST_ID]?: string | undefined }): string {
  return (request[REQUEST_ID] ??= createRandomId());
}

/** The id that the caller sent in `X-Request-Id`, when it is harmless to repeat. It is kept beside ours. */
export function getCallerRequestId({ headers }: Request): string | undefined {
  const sent = headers['x-request-id'];
  return typeof sent === 'string' && SANE.test(sent) && !LOOKS_SECRET.test(sent) ? sent : undefined;
}
