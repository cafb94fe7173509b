import { isUtf8 } from 'node:buffer';
import { ValidationPipe, type ArgumentMetadata, type ValidationError } from '@nestjs/common';
import { ApiHeader } from '@nestjs/swagger';
import * as transformerPackage from 'class-transformer';
import { validate } from 'class-validator';
import { raw, type NextFunction, type Request, type Response } from 'express';
import { getDeclaredRoute, type Route } from '../access/route-table.js';
import {
  ProblemException,
  problems,
  refuseField,
  toPointerToken,
  UNKNOWN_FIELD,
  type FieldError,
} from '../problems/problems.js';
import { MAX_NAMES, PROTOTYPE_NAMES, TOO_MANY_NAMES } from './request-guards.js';

const MAX_DEPTH = 16;
/** As long as the longest text of a passkey (`MAX_BINARY_LENGTH` in domain/webauthn/relying-party.ts). */
export const MAX_TEXT_LENGTH = 8_192;
const [BRACE, CLOSING_BRACE, BRACKET, CLOSING_BRACKET, QUOTE, COMMA, BACKSLASH] = Buffer.from('{}[]",\\');
const decoder = new TextDecoder();

/** Reads a body of at most 100 KB after decompression. `guardHead` has already checked its media type. */
export const readBytes = raw({
  limit: '100kb',
  type: (request) => getDeclaredRoute(request as Request).body !== 'none',
});

/**
 * Refuses bodies that would be costly or harmful to validate: many names (100 ms for 11,000), deep nesting (validation
 * is recursive), undeclared lists, names that reach a prototype, and text that is not well-formed Unicode (different
 * lone surrogates encode alike).
 */
export function parseJsonBody(request: Request, _response: Response, next: NextFunction): void {
  const bytes: unknown = request.body;
  if (Buffer.isBuffer(bytes)) {
    const route = getDeclaredRoute(request);
    if (route.body === 'json') request.body = bytes.length > 0 ? parseBody(bytes, route) : undefined;
  }
  next();
}

function parseBody(bytes: Buffer, route: Route): unknown {
  // Decoding would replace invalid bytes with U+FFFD and so make different passwords equal.
  if (!isUtf8(bytes)) throw new ProblemException(problems.malformedRequest);
  let maxCommas = MAX_NAMES;
  for (const maxItems of route.lists.values()) maxCommas += maxItems;
  refuseCostlyJson(bytes, maxCommas);
  let body: unknown;
  try {
    body = JSON.parse(decoder.decode(bytes));
  } catch {
    throw new ProblemException(problems.malformedRequest);
  }
  refuseHostileValues(body, route);
  return body;
}

/** Counts before parsing, because 11,000 names take 0.2 ms to count and 5 ms to parse. */
function refuseCostlyJson(bytes: Buffer, maxCommas: number): void {
  let depth = 0;
  let commas = 0;
  for (let i = 0; i < bytes.length; i += 1) {
    const byte = bytes[i];
    if (byte === QUOTE) i = findEndOfString(bytes, i);
    else if (byte === COMMA) commas += 1;
    else if (byte === BRACE || byte === BRACKET) depth += 1;
    else if (byte === CLOSING_BRACE || byte === CLOSING_BRACKET) depth -= 1;
    if (depth > MAX_DEPTH) throw new ProblemException(problems.bodyTooDeep);
  }
  if (commas >= maxCommas) refuseField('', TOO_MANY_NAMES);
}

function findEndOfString(bytes: Buffer, start: number): number {
  let i = start + 1;
  while (i < bytes.length && bytes[i] !== QUOTE) i += bytes[i] === BACKSLASH ? 2 : 1;
  return i;
}

function refuseHostileValues(body: unknown, { lists, fields }: Route): void {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw new ProblemException(problems.malformedRequest);
  let names = 0;
  const pending: { value: unknown; pointer: string }[] = [{ value: body, pointer: '' }];
  for (let item = pending.pop(); item; item = pending.pop()) {
    const { value, pointer } = item;
    if (typeof value === 'string') refuseHostileText(value, pointer);
    if (typeof value !== 'object' || value === null) continue;
    for (const [name, child] of Object.entries<unknown>(value as Record<string, unknown>)) {
      if (!Array.isArray(value) && (names += 1) > MAX_NAMES) refuseField('', TOO_MANY_NAMES);
      if (PROTOTYPE_NAMES.has(name))
        refuseField(pointer || `/${name}`, 'is or contains a name that is not a field of this request');
      const below = `${pointer}/${toPointerToken(name)}`;
      if (Array.isArray(child) && !lists.has(below))
        refuseField(below, pointer === '' && !fields.has(name) ? UNKNOWN_FIELD : 'must not be a list');
      pending.push({ value: child, pointer: below });
    }
  }
}

export function refuseHostileText(text: string, pointer: string): void {
  if (text.length > MAX_TEXT_LENGTH) refuseField(pointer, `must be text of at most ${MAX_TEXT_LENGTH} characters`);
  if (!text.isWellFormed()) refuseField(pointer, 'must be well-formed Unicode');
}

/** Validates an absent body once for each class: repeating it would take a third of the CPU of validate-app. */
class FieldsPipe extends ValidationPipe {
  private readonly absentBodies = new Map<unknown, unknown>();

  override async transform(value: unknown, metadata: ArgumentMetadata): Promise<unknown> {
    if (value !== undefined || metadata.type !== 'body') return super.transform(value, metadata);
    const known = this.absentBodies.get(metadata.metatype);
    if (known !== undefined) return known;
    const validated: unknown = Object.freeze(await super.transform(value, metadata));
    this.absentBodies.set(metadata.metatype, validated);
    return validated;
  }
}

/** Validates bodies and queries, and refuses fields that their classes do not declare. */
export function createValidationPipe(): ValidationPipe {
  return new FieldsPipe({
    // Nest would load both packages by name, and in a bundle CommonJS packages lack the names of their exports.
    validatorPackage: { validate },
    transformerPackage,
    transform: true,
    whitelist: true,
    forbidNonWhitelisted: true,
    forbidUnknownValues: true,
    stopAtFirstError: true,
    validationError: { target: false, value: false },
    exceptionFactory: (errors) =>
      new ProblemException(problems.validationFailed, { errors: errors.flatMap((error) => toFieldErrors(error, '')) }),
  });
}

function toFieldErrors(error: ValidationError, parent: string): FieldError[] {
  const pointer = `${parent}/${toPointerToken(error.property)}`;
  const own = Object.entries(error.constraints ?? {}).map(([rule, message]) => ({
    pointer,
    // The library's own message would quote the name that the caller sent.
    detail: rule === 'whitelistValidation' ? UNKNOWN_FIELD : message,
  }));
  return [...own, ...(error.children ?? []).flatMap((child) => toFieldErrors(child, pointer))];
}

/** Excludes blanks, because Node.js joins a repeated header with a comma and a blank. */
const IDEMPOTENCY_KEY = { type: 'string', pattern: '^[!-~]{1,255}$', maxLength: 255 } as const;
const IDEMPOTENCY_KEY_FORM = new RegExp(IDEMPOTENCY_KEY.pattern);

/** Reads the header of draft-ietf-httpapi-idempotency-key-header, with or without its quotes. */
export function readIdempotencyKey({ headers }: Request): string | undefined {
  const sent = headers['idempotency-key'];
  if (sent === undefined || (typeof sent === 'string' && IDEMPOTENCY_KEY_FORM.test(sent))) return sent;
  return refuseField('', 'Idempotency-Key must be 1 to 255 printable ASCII characters without blanks');
}

export const ApiIdempotencyKey = (description: string): MethodDecorator =>
  ApiHeader({ name: 'Idempotency-Key', required: false, schema: IDEMPOTENCY_KEY, description });
