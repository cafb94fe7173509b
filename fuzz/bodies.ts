import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { LABEL, SECRET } from './canaries.js';
import type { Operation, Schema } from './document.js';
import { FOREIGN_NAMES, hostileValue, validValue } from './values.js';

export type Encoding = 'gzip' | 'deflate' | 'br';

/** Text, bytes that are not valid text, or a small body that decompresses to megabytes. */
export type GeneratedBody =
  | { readonly text: string }
  | { readonly hex: string }
  | { readonly encoding: Encoding; readonly megabytes: number };

/** Maps a field or a path parameter of an operation to the symbol of a live value. */
export type SymbolOf = (field: string) => string | undefined;

type Member = readonly [name: string, value: unknown];
type WithBody = Pick<Operation, 'body' | 'isForm'>;

const ENCODINGS: readonly Encoding[] = ['gzip', 'deflate', 'br'];
const FAST = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } };
const MEGABYTE = 1024 * 1024;
const bombs = new Map<string, Buffer>();

export function compress(encoding: Encoding, bytes: Buffer): Buffer {
  if (encoding === 'gzip') return gzipSync(bytes);
  return encoding === 'deflate' ? deflateSync(bytes) : brotliCompressSync(bytes, FAST);
}

/** Cached, because compressing takes longer than sending. */
export function bomb(encoding: Encoding, megabytes: number): Buffer {
  const key = `${encoding} ${megabytes}`;
  const known = bombs.get(key);
  if (known) return known;
  const made = compress(encoding, Buffer.alloc(megabytes * MEGABYTE, `{"email":"${SECRET}`));
  bombs.set(key, made);
  return made;
}

/** A body that is valid by the document; none where the operation takes none. */
export function validBody(
  { body, bodyRequired, isForm }: Operation,
  symbolOf: SymbolOf,
): fc.Arbitrary<GeneratedBody | undefined> {
  if (!body) return fc.constant(undefined);
  const text = membersOf(body, symbolOf).map((members) => ({ text: write(members, isForm) }));
  return bodyRequired ? text : fc.option(text, { nil: undefined, freq: 4 });
}

/** A body with exactly one error, or one that is not valid at all. */
export function hostileBody(operation: WithBody, symbolOf: SymbolOf): fc.Arbitrary<GeneratedBody | undefined> {
  const { body, isForm } = operation;
  const names = Object.keys(body?.properties ?? {});
  const arbitraries: fc.WeightedArbitrary<GeneratedBody | undefined>[] = [
    { weight: 3, arbitrary: wrongText() },
    { weight: 1, arbitrary: fc.json({ maxDepth: 4 }).map((text) => ({ text })) },
    { weight: 1, arbitrary: nested() },
    { weight: 1, arbitrary: large() },
    { weight: 1, arbitrary: manyNames() },
    { weight: 1, arbitrary: bytes() },
    { weight: 1, arbitrary: foreignMember(operation, symbolOf) },
  ];
  if (body && names.length > 0) {
    arbitraries.push({ weight: 8, arbitrary: wrongMember({ body, isForm }, symbolOf, names) });
    arbitraries.push({ weight: 2, arbitrary: fc.constant(undefined) });
  }
  return fc.oneof(...arbitraries);
}

/** Writes members in order, because a name may occur twice. */
function write(members: readonly Member[], isForm: boolean): string {
  if (isForm) return members.map(([name, value]) => `${toFormText(name)}=${toFormText(value)}`).join('&');
  return `{${members.map(([name, value]) => `${JSON.stringify(name)}:${toJson(value)}`).join(',')}}`;
}

/** Leaves symbols unescaped, so that they can be replaced later. */
function toFormText(value: unknown): string {
  const text = typeof value === 'string' ? value : toJson(value);
  return /^\{\{\w+\}\}$/.test(text) ? text : encodeURIComponent(text.toWellFormed());
}

/** `JSON.stringify` returns no text for `undefined`. */
function toJson(value: unknown): string {
  return value === undefined ? 'null' : JSON.stringify(value);
}

function membersOf({ properties = {}, required = [] }: Schema, symbolOf: SymbolOf): fc.Arbitrary<Member[]> {
  const all = Object.entries(properties).map(([name, schema]): fc.Arbitrary<Member | undefined> => {
    const member = validValue(name, schema, symbolOf(name)).map((value): Member => [name, value]);
    return required.includes(name) ? member : fc.option(member, { nil: undefined });
  });
  return fc.tuple(...all).map((members) => members.filter((member) => member !== undefined));
}

function wrongMember(
  { body, isForm }: { readonly body: Schema; readonly isForm: boolean },
  symbolOf: SymbolOf,
  names: readonly string[],
): fc.Arbitrary<GeneratedBody> {
  return fc.constantFrom(...names).chain((name) =>
    fc
      .tuple(membersOf(body, symbolOf), fc.constantFrom('replace', 'remove', 'repeat'), hostileValue(name))
      .map(([members, change, value]) => {
        const others = change === 'repeat' ? members : members.filter(([other]) => other !== name);
        return { text: write(change === 'remove' ? others : [...others, [name, value]], isForm) };
      }),
  );
}

function foreignMember({ body, isForm }: WithBody, symbolOf: SymbolOf): fc.Arbitrary<GeneratedBody> {
  const added = fc.tuple(fc.constantFrom(...FOREIGN_NAMES), hostileValue('foreign'));
  return fc
    .tuple(membersOf(body ?? {}, symbolOf), added)
    .map(([members, member]) => ({ text: write([...members, member], isForm) }));
}

function wrongText(): fc.Arbitrary<GeneratedBody> {
  const around = `{"email":"${LABEL}@example.org","password":"${SECRET}"}`;
  const texts = [
    ...['', ' ', '{', '}', '{}', '[]', '[{}]', 'null', 'true', '1', '""', 'NaN', '1e999', '{"a":1e999}', '{,}'],
    ...[around.slice(0, -1), `${around}x`, `\ufeff${around}`, around.replaceAll('"', "'"), `[${around}]`],
    ...[`${around},${around}`, `{"__proto__":${around}}`, `{"email":{"__proto__":1}}`, `/**/${around}`, `a=${SECRET}`],
    ...['{"email":"\\ud800"}', '{"email":"\\u0000"}', '{"\\u005f_proto__":1}', `{"${SECRET}":"${SECRET}"}`],
  ];
  return fc.constantFrom(...texts).map((text) => ({ text }));
}

function nested(): fc.Arbitrary<GeneratedBody> {
  const shapes = fc.constantFrom<[string, string][]>(['[', ']'], ['{"a":', '}'], ['{"email":', '}'], ['[[', ']']);
  return fc
    .tuple(shapes, fc.constantFrom(1, 15, 16, 17, 100, 5_000, 20_000))
    .map(([[open, close], depth]) => ({ text: `{"email":${open.repeat(depth)}1${close.repeat(depth)}}` }));
}

function large(): fc.Arbitrary<GeneratedBody> {
  return fc
    .constantFrom(102_399, 102_400, 102_401, 200_000, MEGABYTE)
    .map((length) => ({ text: `{"email":"${SECRET}${'x'.repeat(length - 12 - SECRET.length)}"}` }));
}

/** More names than any operation takes, as many list items, or the same name repeatedly. */
function manyNames(): fc.Arbitrary<GeneratedBody> {
  const counts = fc.constantFrom(31, 32, 33, 1_000, 9_000);
  const shapes = fc.constantFrom(
    (list: readonly number[]) => `{${list.map((i) => `"${i.toString(36)}":1`).join(',')}}`,
    (list: readonly number[]) => `{"email":{${list.map((i) => `"a${i}":1`).join(',')}}}`,
    (list: readonly number[]) => `{"email":[${list.join(',')}]}`,
    (list: readonly number[]) => `{"email":[${list.map(() => '{}').join(',')}]}`,
    (list: readonly number[]) => `{${list.map(() => '"email":1').join(',')}}`,
  );
  return fc
    .tuple(shapes, counts)
    .map(([shape, count]) => ({ text: shape(Array.from({ length: count }, (_, index) => index)) }));
}

function bytes(): fc.Arbitrary<GeneratedBody> {
  return fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: 200 }).map((data) => ({ hex: Buffer.from(data).toString('hex') })),
    fc
      .constantFrom('7b22656d61696c223a22ff227d', 'fffe7b007d00', '7b22eda080223a317d', '7b22c0ae223a317d')
      .map((hex) => ({ hex })),
    fc
      .tuple(fc.constantFrom(...ENCODINGS), fc.constantFrom(1, 10, 60))
      .map(([encoding, megabytes]) => ({ encoding, megabytes })),
  );
}
