import { computeDigest, type SecretDigest } from '../../../src/crypto/secret.js';
import { RefusedError } from './errors.js';
import type { Door } from './principals.js';
import type { PresentedRequest } from './presented-request.js';
import { DUPLICATE_HEADER, MISSING_TOKEN, REFUSALS } from './refusals.js';

/** A credential that is well-formed, and may be sent to the authentication service. */
export interface Credential {
  readonly door: Door;
  /** In lower case; empty for a token, which is known by its digest. */
  readonly id: string;
  readonly digest: SecretDigest;
  /** The headers to forward. */
  readonly headers: Readonly<Record<string, string>>;
}

const HEADERS_OF_DOOR: Readonly<Record<Door, readonly string[]>> = {
  app: ['x-platform-app-id', 'x-platform-app-key'],
  node: ['x-api-key'],
  user: ['authorization'],
};
/** Visible ASCII, of a length far above any credential of the service. */
const WELL_FORMED = /^[\x21-\x7e]{1,4096}$/;
const SAFE_REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;
/** The service's rule: the caller may have put a secret into the wrong header. */
const LOOKS_SECRET = /pa_(rt|node|app)_|[A-Za-z0-9_]{40}/;
const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** @throws {RefusedError} when an app's key is missing or malformed */
export function readApp(request: PresentedRequest): Credential {
  refuseTwice('app', request);
  const id = readHeader(request, 'x-platform-app-id') ?? '';
  const key = readHeader(request, 'x-platform-app-key') ?? '';
  if (!WELL_FORMED.test(id) || !WELL_FORMED.test(key)) throw new RefusedError(REFUSALS.app);
  return toCredential('app', id, key, { 'X-Platform-App-Id': id, 'X-Platform-App-Key': key });
}

/** @throws {RefusedError} when a node's key is missing or malformed */
export function readNode(request: PresentedRequest): Credential {
  refuseTwice('node', request);
  const credential = readHeader(request, 'x-api-key') ?? '';
  const colon = credential.indexOf(':');
  if (!WELL_FORMED.test(credential) || colon < 1 || colon === credential.length - 1)
    throw new RefusedError(REFUSALS.node);
  return toCredential('node', credential.slice(0, colon), credential.slice(colon + 1), { 'X-API-Key': credential });
}

/** @throws {RefusedError} when a token is missing or malformed */
export function readToken(request: PresentedRequest): Credential & { readonly token: string } {
  refuseTwice('user', request);
  const header = readHeader(request, 'authorization') ?? '';
  if (!/^bearer( |$)/i.test(header)) throw new RefusedError(MISSING_TOKEN);
  const token = header.slice('bearer '.length).trim();
  if (!WELL_FORMED.test(token)) throw new RefusedError(REFUSALS.user);
  return { ...toCredential('user', '', token, { Authorization: `Bearer ${token}` }), token };
}

/** The headers that connect the question to the request in logs and traces. */
export function readTracing(request: PresentedRequest): Record<string, string> {
  const id = readHeader(request, 'x-request-id') ?? '';
  const trace = readHeader(request, 'traceparent') ?? '';
  return {
    ...(SAFE_REQUEST_ID.test(id) && !LOOKS_SECRET.test(id) && { 'X-Request-Id': id }),
    ...(TRACEPARENT.test(trace) && { traceparent: trace }),
  };
}

function toCredential(door: Door, id: string, secret: string, headers: Record<string, string>): Credential {
  return { door, id: id.toLowerCase(), digest: computeDigest(secret), headers };
}

/** Identifies a credential among the questions in flight. */
export function toFingerprint({ door, id, digest }: Credential): string {
  return `${door} ${id} ${digest.toString('base64')}`;
}

function readHeader({ headers }: PresentedRequest, name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined;
  const value = headers[name];
  return typeof value === 'string' ? value : value?.[0];
}

/** Node.js keeps the first `Authorization` and joins the others with commas: only the raw headers show it. */
function refuseTwice(door: Door, { headers, rawHeaders }: PresentedRequest): void {
  for (const name of HEADERS_OF_DOOR[door]) {
    if (!(headers instanceof Headers) && Array.isArray(headers[name]) && headers[name].length > 1) {
      throw new RefusedError(DUPLICATE_HEADER);
    }
    if (rawHeaders && countHeader(rawHeaders, name) > 1) throw new RefusedError(DUPLICATE_HEADER);
  }
}

function countHeader(rawHeaders: readonly string[], name: string): number {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const candidate = rawHeaders[i] ?? '';
    if (candidate.length === name.length && candidate.toLowerCase() === name) count += 1;
  }
  return count;
}
