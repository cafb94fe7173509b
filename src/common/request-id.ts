import type { Request } from 'express';
import { newId } from './ids.js';

const SANE = /^[A-Za-z0-9._-]{1,128}$/;
const ids = new WeakMap<Request, string>();

/** The id a caller sent in `X-Request-Id`, when it is harmless to repeat, or a new one. */
export function requestIdOf(request: Request): string {
  let id = ids.get(request);
  if (id === undefined) {
    const sent = request.headers['x-request-id'];
    id = typeof sent === 'string' && SANE.test(sent) ? sent : newId();
    ids.set(request, id);
  }
  return id;
}
