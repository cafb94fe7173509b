// Ids of rows and of requests.
import type { Request } from 'express';
import { v4, v7, validate } from 'uuid';

/** Creates a UUIDv7 (RFC 9562), which sorts by creation time. */
export function createId(): string {
  return v7();
}

/** Creates a UUIDv4: several times cheaper than {@link createId}, because Node.js generates them in advance. */
export function createRandomId(): string {
  return v4();
}

/** Of any version and variant, as PostgreSQL stores it: the id of a household may come from elsewhere (decision 12). */
export const UUID_PATTERN = '[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}';
const UUID = new RegExp(`^${UUID_PATTERN}$`);

export function isId(text: string): boolean {
  return UUID.test(text);
}

/** Whether the id of a user can be written as bytes (RFC 9562 §4), as challenges and passkeys do. */
export function isStandardId(text: string): boolean {
  return validate(text);
}

/** @returns the UUID that 16 bytes encode (RFC 9562 §4); undefined when they do not encode one */
export function toUuid(bytes: Buffer): string | undefined {
  const text = bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
  return validate(text) ? text : undefined;
}

const SAFE = /^[A-Za-z0-9._-]{1,128}$/;
/** Matches text like a key or token, which the caller may have put into the wrong header. */
const LOOKS_SECRET = /pa_[a-z]+_|[A-Za-z0-9_]{40}/;
const REQUEST_ID = Symbol('request id');

/** @returns the id of a request, always generated here: a caller cannot choose what the audit log contains */
export function getRequestId(request: Request & { [REQUEST_ID]?: string | undefined }): string {
  return (request[REQUEST_ID] ??= createRandomId());
}

/** @returns the id that the caller sent in `X-Request-Id`, when it is safe to log */
export function getCallerRequestId({ headers }: Pick<Request, 'headers'>): string | undefined {
  const sent = headers['x-request-id'];
  return typeof sent === 'string' && SAFE.test(sent) && !LOOKS_SECRET.test(sent) ? sent : undefined;
}
