import type { Request } from 'express';
import { randomId } from './ids.js';

const SANE = /^[A-Za-z0-9._-]{1,128}$/;
const REQUEST_ID = Symbol('request id');

/** The id a caller sent in `X-Request-Id`, when it is harmless to repeat, or a new one. */
export function requestIdOf(request: Request & { [REQUEST_ID]?: string | undefined }): string {
  return (request[REQUEST_ID] ??= sentId(request) ?? randomId());
}

function sentId({ headers }: Request): string | undefined {
  const sent = headers['x-request-id'];
  return typeof sent === 'string' && SANE.test(sent) ? sent : undefined;
}
