import { hash } from 'node:crypto';
import { RefusedError } from './errors.js';
import { readHeader, readOnce } from './headers.js';
import type { Door } from './principals.js';
import type { PresentedRequest } from './presented-request.js';
import { MISSING_TOKEN, REFUSALS, type Doors } from './refusals.js';

/** A well-formed credential, which may be sent to the authentication service. */
export interface Credential {
  readonly door: Door;
  /** The id in lower case; empty for a token, which its digest identifies. */
  readonly id: string;
  /** SHA-256 as a string with one character for each byte, which Node.js makes four times faster than a buffer. */
  readonly digest: string;
  /** Makes the headers to forward, and is called only when the service is asked. */
  readonly toHeaders: () => Readonly<Record<string, string>>;
}

/** Visible ASCII, up to a length far above that of any credential of the service. */
const WELL_FORMED = /^[\x21-\x7e]{1,4096}$/;
const SAFE_REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;
/** A caller may put a secret into the wrong header, so such an id is not echoed. The service has the same rule. */
const LOOKS_SECRET = /pa_[a-z]+_|[A-Za-z0-9_]{40}/;
const BEARER = /^bearer( |$)/i;
const HEADERS: Readonly<Record<Door, readonly string[]>> = {
  app: ['x-platform-app-id', 'x-platform-app-key'],
  node: ['x-api-key'],
  user: ['authorization'],
};
const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** @throws {RefusedError} when an app's key is missing or malformed */
export function readApp(request: PresentedRequest): Credential {
  const id = readOnce(request, 'x-platform-app-id');
  const key = readOnce(request, 'x-platform-app-key');
  if (!WELL_FORMED.test(id) || !WELL_FORMED.test(key)) throw new RefusedError(REFUSALS.app);
  return toCredential('app', id, key, () => ({ 'X-Platform-App-Id': id, 'X-Platform-App-Key': key }));
}

/** @throws {RefusedError} when a node's key is missing or malformed */
export function readNode(request: PresentedRequest): Credential {
  const credential = readOnce(request, 'x-api-key');
  const colon = credential.indexOf(':');
  if (!WELL_FORMED.test(credential) || colon < 1 || colon === credential.length - 1)
    throw new RefusedError(REFUSALS.node);
  const toHeaders = (): Record<string, string> => ({ 'X-API-Key': credential });
  return toCredential('node', credential.slice(0, colon), credential.slice(colon + 1), toHeaders);
}

/** @throws {RefusedError} when a token is missing or malformed */
export function readToken(request: PresentedRequest): Credential & { readonly token: string } {
  const header = readOnce(request, 'authorization');
  if (!BEARER.test(header)) throw new RefusedError(MISSING_TOKEN);
  const token = trimBlanks(header.slice('bearer '.length));
  if (!WELL_FORMED.test(token)) throw new RefusedError(REFUSALS.user);
  const toHeaders = (): Record<string, string> => ({ Authorization: `Bearer ${token}` });
  return { door: 'user', id: '', digest: computeDigest(token), toHeaders, token };
}

/**
 * @returns the doors for which the request presents a credential, in the given order; another scheme of Authorization
 * counts as none
 */
export function findDoors<D extends Door>(request: PresentedRequest, doors: Doors<D>): readonly D[] {
  return doors.filter((door) =>
    HEADERS[door].some((name) => {
      const value = readHeader(request, name);
      return door === 'user' ? BEARER.test(value) : value !== '';
    }),
  );
}

/** @returns undefined when the request has no id that may be shown, or its headers cannot be read */
export function readRequestId(request: PresentedRequest): string | undefined {
  try {
    const id = readHeader(request, 'x-request-id');
    return SAFE_REQUEST_ID.test(id) && !LOOKS_SECRET.test(id) ? id : undefined;
  } catch {
    return undefined;
  }
}

/** These headers connect the question to the request in logs and traces. */
export function readTracing(request: PresentedRequest): Record<string, string> {
  const id = readRequestId(request);
  const trace = readHeader(request, 'traceparent');
  return { ...(id !== undefined && { 'X-Request-Id': id }), ...(TRACEPARENT.test(trace) && { traceparent: trace }) };
}

/**
 * `trim` would also remove no-break spaces, and a regular expression for blanks on both sides backtracks quadratically
 * (ReDoS).
 */
function trimBlanks(text: string): string {
  let [start, end] = [0, text.length];
  while (start < end && isBlank(text[start])) start += 1;
  while (start < end && isBlank(text[end - 1])) end -= 1;
  return text.slice(start, end);
}

const isBlank = (character: string | undefined): boolean => character === ' ' || character === '\t';

function toCredential(door: Door, id: string, secret: string, toHeaders: Credential['toHeaders']): Credential {
  return { door, id: id.toLowerCase(), digest: computeDigest(secret), toHeaders };
}

function computeDigest(secret: string): string {
  return hash('sha256', secret, 'binary');
}

/** For an immediate comparison: the buffer is part of a larger one, which it would keep in memory. */
export function toPresentedDigest({ digest }: Credential): Buffer {
  return Buffer.from(digest, 'latin1');
}

/** A copy that may be remembered. */
export function toStoredDigest({ digest }: Credential): Buffer {
  return Buffer.alloc(digest.length, digest, 'latin1');
}

/** Identifies a credential among the questions in flight. */
export function toFingerprint({ door, id, digest }: Credential): string {
  return `${door} ${id} ${digest}`;
}
