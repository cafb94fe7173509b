import fc from 'fast-check';
import { canaryOf, SECRET } from './canaries.js';
import type { Schema } from './document.js';

/** Names that no request declares, including names that reach a prototype. */
export const FOREIGN_NAMES: readonly string[] = [
  ...['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'id', 'role', 'password_hash', 'is_admin'],
  ...['email.', 'email[]', 'expires_at[$gt]', '', ' ', '0', 'a\u0000b', '\ud800', SECRET, `x${SECRET}`.repeat(50)],
];

/** The longest generated text, where the schema allows longer ones. */
const MAX_LENGTH = 60;
const MAX_ITEMS = 10;

/** Text of an attacker or of a broken client. */
export function hostileText(canary: string): fc.Arbitrary<string> {
  const around = [
    ...['', ' ', '\u0000', '\ud800', '\udfff', '\u202e', '\u200b', '\ufeff', '\r\nSet-Cookie: a=b', '\n{"level":60}'],
    ...["' OR 1=1 --", '"; DROP TABLE users; --', '${jndi:ldap://127.0.0.1/a}', '<script>', '{{7*7}}', '%s%n', '\\'],
    ...['../../../etc/passwd', '__proto__', 'constructor', 'null', 'undefined', 'NaN', '\u001b[2J', 'Ａ@ｘ.org'],
  ];
  return fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom(...around).map((text) => canary + text) },
    { weight: 3, arbitrary: fc.constantFrom(...around).map((text) => text + canary) },
    { weight: 1, arbitrary: fc.constantFrom('', ' ', '\t', '\u0000', '0', '-1', 'true', '🙂'.repeat(64)) },
    { weight: 3, arbitrary: fc.string({ unit: 'binary', maxLength: 80 }).map((text) => canary + text) },
    { weight: 1, arbitrary: fc.constantFrom(101, 255, 257, 513, 5_000, 90_000).map((n) => canary + 'x'.repeat(n)) },
  );
}

/** Any JSON value, mostly of a type that the field does not have. */
export function hostileValue(field: string): fc.Arbitrary<unknown> {
  const canary = canaryOf(field);
  return fc.oneof<fc.MaybeWeightedArbitrary<unknown>[]>(
    { weight: 6, arbitrary: hostileText(canary) },
    fc.constantFrom(null, true, false, 0, -0, -1, 1e308, 2 ** 53, 0.1, 2_147_483_648),
    fc.constantFrom([], {}, [[]], [canary], { [canary]: canary }, { length: 8 }, { toString: 1 }, [null, undefined]),
    fc.constantFrom('2030-13-01T00:00:00Z', '2030-01-01', '0000-01-01T00:00:00Z', '+010000-01-01T00:00:00Z', '1e3'),
    fc.constantFrom('2030-01-01T00:00:00+99:99', '2030-02-30T00:00:00Z', '2030-01-01T24:00:00Z', '2030-W01-1T00:00Z'),
    fc.jsonValue({ maxDepth: 3 }),
  );
}

/**
 * A value that is valid by the document. A credential cannot be invented, so the symbol of a live one stands for it.
 * @param symbol of that credential, if this field has one
 */
export function validValue(field: string, schema: Schema, symbol: string | undefined): fc.Arbitrary<unknown> {
  // A cursor is opaque and cannot be invented.
  if (field === 'cursor') return fc.constant(symbol);
  const madeUp = typesOf(schema).includes('null')
    ? fc.option(ofType(field, schema), { freq: 4 })
    : ofType(field, schema);
  if (symbol === undefined) return madeUp;
  return fc.oneof<fc.MaybeWeightedArbitrary<unknown>[]>({ weight: 4, arbitrary: fc.constant(symbol) }, madeUp);
}

function ofType(field: string, schema: Schema): fc.Arbitrary<unknown> {
  if (schema.enum) return fc.constantFrom(...schema.enum);
  const [type] = typesOf(schema);
  if (type === 'boolean') return fc.boolean();
  if (type === 'integer') return integersOf(schema);
  if (type === 'array') return listsOf(field, schema);
  if (type === 'object') return objectsOf(schema);
  if (type === 'string' || type === undefined) return textOf(field, schema);
  throw new Error(`The generator does not know the type of ${field}: ${JSON.stringify(schema)}`);
}

/** @returns the types, with `null` last */
function typesOf({ type }: Schema): readonly (string | undefined)[] {
  return typeof type === 'string' ? [type] : (type ?? [undefined]);
}

function listsOf(
  field: string,
  { items = {}, minItems = 0, maxItems = MAX_ITEMS, uniqueItems = false }: Schema,
): fc.Arbitrary<unknown> {
  const bounds = { minLength: minItems, maxLength: Math.min(maxItems, MAX_ITEMS) };
  return uniqueItems ? fc.uniqueArray(ofType(field, items), bounds) : fc.array(ofType(field, items), bounds);
}

function objectsOf({ properties = {}, required = [] }: Schema): fc.Arbitrary<unknown> {
  const members = Object.entries(properties).map(([name, schema]) => [name, ofType(name, schema)] as const);
  return fc.record(Object.fromEntries(members), { requiredKeys: [...required] });
}

function integersOf({ minimum, maximum }: Schema): fc.Arbitrary<number> {
  return fc.integer({ ...(minimum !== undefined && { min: minimum }), ...(maximum !== undefined && { max: maximum }) });
}

function textOf(
  field: string,
  { format, pattern, minLength = 0, maxLength = MAX_LENGTH }: Schema,
): fc.Arbitrary<string> {
  const canary = canaryOf(field);
  if (field === 'address') return fc.ipV4();
  if (format === 'uuid') return fc.uuid();
  if (format === 'email') return fc.stringMatching(/^[a-z0-9]{1,12}$/).map((text) => `${canary}${text}@example.org`);
  if (format === 'date-time') return moments().map((moment) => moment.toISOString());
  if (pattern) return fc.stringMatching(new RegExp(pattern));
  const characters = fc.string({
    unit: 'grapheme',
    minLength,
    maxLength: Math.min(maxLength - canary.length, MAX_LENGTH),
  });
  return characters.map((text) => (canary + text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '-'));
}

function moments(): fc.Arbitrary<Date> {
  return fc.date({ min: new Date('2030-01-01'), max: new Date('2090-01-01'), noInvalidDate: true });
}
