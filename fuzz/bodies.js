import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { LABEL, SECRET } from './canaries.js';
import { FOREIGN_NAMES, hostileValue, validValue } from './values.js';

const FAST = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } };
export const COMPRESS = { gzip: gzipSync, deflate: deflateSync, br: (bytes) => brotliCompressSync(bytes, FAST) };
const MEGABYTE = 1024 * 1024;
const bombs = new Map();

/** A small body that decompresses to megabytes. Cached, because compressing takes longer than sending. */
export function bomb(encoding, megabytes) {
  const key = `${encoding} ${megabytes}`;
  if (!bombs.has(key)) bombs.set(key, COMPRESS[encoding](Buffer.alloc(megabytes * MEGABYTE, `{"email":"${SECRET}`)));
  return bombs.get(key);
}

/** Writes members in order, so that a name may occur twice. */
const write = (members) =>
  `{${members.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value) ?? 'null'}`).join(',')}}`;

function members({ properties = {}, required = [] }, symbolOf) {
  const all = Object.entries(properties).map(([name, schema]) => {
    const member = validValue(name, schema, symbolOf(name)).map((value) => [name, value]);
    return required.includes(name) ? member : fc.option(member, { nil: undefined });
  });
  return fc.tuple(...all).map((list) => list.filter((member) => member !== undefined));
}

/** A body that is valid by the document; none where the operation takes none. */
export function validBody({ body, bodyRequired }, symbolOf) {
  if (!body) return fc.constant(undefined);
  const text = members(body, symbolOf).map((list) => ({ text: write(list) }));
  return bodyRequired ? text : fc.option(text, { nil: undefined, freq: 4 });
}

/** A body with exactly one error, or one that is not valid at all. */
export function hostileBody(operation, symbolOf) {
  const names = Object.keys(operation.body?.properties ?? {});
  const arbitraries = [
    { weight: 3, arbitrary: wrongText() },
    { weight: 1, arbitrary: fc.json({ maxDepth: 4 }).map((text) => ({ text })) },
    { weight: 1, arbitrary: nested() },
    { weight: 1, arbitrary: large() },
    { weight: 1, arbitrary: manyNames() },
    { weight: 1, arbitrary: bytes() },
    { weight: 1, arbitrary: foreignMember(operation, symbolOf) },
  ];
  if (names.length > 0) {
    arbitraries.push({ weight: 8, arbitrary: wrongMember(operation, symbolOf, names) });
    arbitraries.push({ weight: 2, arbitrary: fc.constant(undefined) });
  }
  return fc.oneof(...arbitraries);
}

function wrongMember({ body }, symbolOf, names) {
  return fc.constantFrom(...names).chain((name) =>
    fc
      .tuple(members(body, symbolOf), fc.constantFrom('replace', 'remove', 'repeat'), hostileValue(name))
      .map(([list, change, value]) => {
        const others = change === 'repeat' ? list : list.filter(([other]) => other !== name);
        return { text: write(change === 'remove' ? others : [...others, [name, value]]) };
      }),
  );
}

function foreignMember({ body }, symbolOf) {
  const added = fc.tuple(fc.constantFrom(...FOREIGN_NAMES), hostileValue('foreign'));
  return fc.tuple(members(body ?? {}, symbolOf), added).map(([list, member]) => ({ text: write([...list, member]) }));
}

function wrongText() {
  const around = `{"email":"${LABEL}@example.org","password":"${SECRET}"}`;
  return fc
    .constantFrom(
      ...['', ' ', '{', '}', '{}', '[]', '[{}]', 'null', 'true', '1', '""', 'NaN', '1e999', '{"a":1e999}', '{,}'],
      ...[around.slice(0, -1), `${around}x`, `\ufeff${around}`, around.replaceAll('"', "'"), `[${around}]`],
      ...[
        `${around},${around}`,
        `{"__proto__":${around}}`,
        `{"email":{"__proto__":1}}`,
        `/**/${around}`,
        `a=${SECRET}`,
      ],
      ...['{"email":"\\ud800"}', '{"email":"\\u0000"}', '{"\\u005f_proto__":1}', `{"${SECRET}":"${SECRET}"}`],
    )
    .map((text) => ({ text }));
}

function nested() {
  const shapes = fc.constantFrom(['[', ']'], ['{"a":', '}'], ['{"email":', '}'], ['[[', ']']);
  return fc
    .tuple(shapes, fc.constantFrom(1, 15, 16, 17, 100, 5_000, 20_000))
    .map(([[open, close], depth]) => ({ text: `{"email":${open.repeat(depth)}1${close.repeat(depth)}}` }));
}

function large() {
  return fc
    .constantFrom(102_399, 102_400, 102_401, 200_000, MEGABYTE)
    .map((length) => ({ text: `{"email":"${SECRET}${'x'.repeat(length - 12 - SECRET.length)}"}` }));
}

/** More names than any operation takes, as many list items, or the same name repeatedly. */
function manyNames() {
  const counts = fc.constantFrom(31, 32, 33, 1_000, 9_000);
  const shapes = fc.constantFrom(
    (list) => `{${list.map((i) => `"${i.toString(36)}":1`).join(',')}}`,
    (list) => `{"email":{${list.map((i) => `"a${i}":1`).join(',')}}}`,
    (list) => `{"email":[${list.join(',')}]}`,
    (list) => `{"email":[${list.map(() => '{}').join(',')}]}`,
    (list) => `{${list.map(() => '"email":1').join(',')}}`,
  );
  return fc
    .tuple(shapes, counts)
    .map(([write, count]) => ({ text: write(Array.from({ length: count }, (_, i) => i)) }));
}

function bytes() {
  const encodings = fc.constantFrom(...Object.keys(COMPRESS));
  return fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: 200 }).map((data) => ({ hex: Buffer.from(data).toString('hex') })),
    fc
      .constantFrom('7b22656d61696c223a22ff227d', 'fffe7b007d00', '7b22eda080223a317d', '7b22c0ae223a317d')
      .map((hex) => ({ hex })),
    fc.tuple(encodings, fc.constantFrom(1, 10, 60)).map(([encoding, megabytes]) => ({ encoding, megabytes })),
  );
}
