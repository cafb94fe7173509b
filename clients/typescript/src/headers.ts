import { RefusedError, UnavailableError } from './errors.js';
import type { PresentedRequest } from './presented-request.js';
import { DUPLICATE_HEADER } from './refusals.js';

/**
 * Reads a credential.
 * @param name in lower case
 * @throws {RefusedError} when the header arrived twice {UnavailableError} when the headers cannot be read
 */
export function readOnce(request: PresentedRequest, name: string): string {
  const { headers, rawHeaders } = request;
  // Node.js keeps the first `Authorization` and joins other headers with commas, so only the raw headers show
  // repetition.
  if (rawHeaders && countHeader(rawHeaders, name) > 1) throw new RefusedError(DUPLICATE_HEADER);
  const plain = rawHeaders && readProperty(headers, name);
  if (typeof plain === 'string') return plain;
  const [value = '', ...others] = findValues(headers, name);
  if (others.length > 0) throw new RefusedError(DUPLICATE_HEADER);
  if (typeof value !== 'string') throw createUnreadableError();
  return value;
}

/** Reads a header that is not a credential: the first value, if it arrived twice. */
export function readHeader({ headers }: PresentedRequest, name: string): string {
  const [value] = findValues(headers, name);
  return typeof value === 'string' ? value : '';
}

/** `unknown`, here and below, because types do not bind callers in JavaScript. */
function findValues(headers: unknown, name: string): readonly unknown[] {
  if (typeof headers !== 'object' || headers === null || Array.isArray(headers)) throw createUnreadableError();
  if (headers instanceof Map) return collect([...headers.keys()], (key) => headers.get(key), name);
  if (hasGet(headers)) return toValues(headers.get(name));
  return collect(Object.keys(headers), (key) => readProperty(headers, key), name);
}

/** Tells `Headers` from a plain object, where a header named `get` is a string. */
function hasGet(headers: object): headers is { get(name: string): unknown } {
  return 'get' in headers && typeof headers.get === 'function';
}

function collect<Key>(keys: readonly Key[], read: (key: Key) => unknown, name: string): readonly unknown[] {
  const found: unknown[] = [];
  for (const key of keys) if (isNamed(key, name)) found.push(...toValues(read(key)));
  return found;
}

function toValues(value: unknown): readonly unknown[] {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value : [value];
}

function readProperty(headers: unknown, name: string): unknown {
  return (headers as Readonly<Record<string, unknown>> | null | undefined)?.[name];
}

function countHeader(rawHeaders: readonly string[], name: string): number {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) if (isNamed(rawHeaders[i], name)) count += 1;
  return count;
}

/** Lengths are compared first, because they tell most names apart. */
function isNamed(key: unknown, name: string): boolean {
  return typeof key === 'string' && key.length === name.length && key.toLowerCase() === name;
}

/** Not a verdict, because the credential may be valid. */
function createUnreadableError(): UnavailableError {
  const detail =
    'the headers of the request must be an object, a Map, or have get(name), with strings or lists of strings as values';
  return new UnavailableError({ cause: new TypeError(detail) });
}
