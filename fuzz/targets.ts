import fc from 'fast-check';
import type { SymbolOf } from './bodies.js';
import { SECRET } from './canaries.js';
import type { Operation } from './document.js';
import { FOREIGN_NAMES, hostileText, hostileValue, validValue } from './values.js';

type Place = 'in' | 'after' | 'before' | 'slash' | 'case' | 'double' | 'short';
type Target = Pick<Operation, 'template'>;
type Queried = Pick<Operation, 'query'>;
type QueryParameter = readonly [name: string, value: unknown];

const SYMBOLIC = new Set([
  'refresh_token',
  'app_id',
  'node_id',
  'operator_id',
  'enrolment_id',
  'cursor',
  'target',
  'caller',
  'household_id',
]);
const PLACES: readonly Place[] = ['in', 'after', 'before', 'slash', 'case', 'double', 'short'];
/** The password of these operations must be the current one; others take a new one. */
const PROVES_PASSWORD =
  /\/login$|\/me\/(delete|email|recovery-codes|totp(\/remove)?|passkeys\/(options|\{id\}\/remove))$|\/v0\/households\/\{id\}/;
const MAX_SEGMENT_LENGTH = 6_000;
const MAX_QUERY_LENGTH = 8_000;

const JUNK_SEGMENTS = [
  ...['%', '%zz', '%00', '%0d%0aSet-Cookie:a=b', '%E0%A4%A', '%c0%ae%c0%ae', '..%2f..%2fetc%2fpasswd', '%2e%2e', '..'],
  ...['.', ';a=b', 'me', '__proto__', 'constructor', '%252e%252e%252f', "'", '*', ':id', '{id}', '%ff'],
  'x'.repeat(4_000),
];
const JUNK_QUERIES = [
  ...['%', '%zz', '=', '&&&', '?', 'limit', 'limit=', 'limit=1&limit=2', 'limit[]=1', 'limit[a][b]=1', 'limit=0x10'],
  ...['__proto__=x', '__proto__[x]=1', '%5f_proto__=x', 'constructor=1', 'limit=1%00', 'limit=%ff', 'cursor=%00'],
  ...[`${SECRET}=1`, 'limit=1&'.repeat(40), Array.from({ length: 2_000 }, (_, i) => `q${i}`).join('&')],
];

/** What the fields of operations on households name, beside the household of the user: fuzz/actors.ts. */
const OF_HOME: Readonly<Record<string, string>> = {
  id: 'home_id',
  household_id: 'home_id',
  user_id: 'member_id',
  node_id: 'home_node_id',
  invitation_id: 'invitation_id',
};

/** @returns the symbol of a live value for each field or path parameter of an operation that has one */
export function symbols({ template }: Target): SymbolOf {
  const isOfHome = /\/(households|invitations)\b/.test(template);
  return (field) => {
    if (isOfHome && field === 'user_id' && template.endsWith('/members')) return '{{stranger_id}}';
    if (isOfHome && OF_HOME[field] !== undefined) return `{{${OF_HOME[field]}}}`;
    if (field === 'id') return '{{user_id}}';
    if (field === 'service') return '{{caller}}';
    if (field === 'token') return '{{access_token}}';
    if (/^(email|password)$/.test(field)) return PROVES_PASSWORD.test(template) ? `{{${field}}}` : undefined;
    if (field === 'code') return template.endsWith('/nodes/enrol') ? '{{enrolment_code}}' : undefined;
    if (field === 'current_password') return '{{password}}';
    return SYMBOLIC.has(field) ? `{{${field}}}` : undefined;
  };
}

/** A valid path by the document, with an existing or a random id. */
export function goodPath({ template }: Target): fc.Arbitrary<string> {
  const names = [...template.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
  const values = names.map((name) => validValue(name, { format: 'uuid' }, symbols({ template })(name)));
  return fc
    .tuple(...values)
    .map((list) => names.reduce((path, name, index) => path.replace(`{${name}}`, String(list[index])), template));
}

/** A segment that is not valid in a path. */
export function junkSegment(): fc.Arbitrary<string> {
  return fc.oneof(
    fc.constantFrom(...JUNK_SEGMENTS).map((text) => text + SECRET),
    fc.constantFrom(...JUNK_SEGMENTS),
    hostileText(SECRET).map((text) => percent(text).slice(0, MAX_SEGMENT_LENGTH)),
  );
}

/** A hostile path, or a variant spelling of a valid one. */
export function badPath({ template }: Target): fc.Arbitrary<string> {
  const parts = fc.tuple(goodPath({ template }), junkSegment(), fc.constantFrom(...PLACES));
  return parts.map(([path, junk, place]) => {
    const changed: Readonly<Record<Place, string>> = {
      in: template.includes('{') ? template.replace(/\{\w+\}/, junk) : `${path}/${junk}`,
      after: `${path}/${junk}`,
      before: `/${junk}${path}`,
      slash: `${path}/`,
      case: path.includes('{{') ? path : path.toUpperCase(),
      double: path.replaceAll('/', '//'),
      short: path.replace('/api/v0', ''),
    };
    return changed[place];
  });
}

/** A query of documented parameters. */
export function goodQuery({ query }: Queried, symbolOf: SymbolOf): fc.Arbitrary<string> {
  const all = query.map(({ name, schema }) =>
    fc
      .option(validValue(name, schema, symbolOf(name)), { nil: undefined })
      .map((value): QueryParameter => [name, value]),
  );
  return fc.tuple(...all).map((list) => writeQuery(list.filter(([, value]) => value !== undefined)));
}

/** A query with one error. */
export function badQuery({ query }: Queried, symbolOf: SymbolOf): fc.Arbitrary<string> {
  const names = query.map(({ name }) => name);
  const own = fc.constantFrom(...(names.length > 0 ? names : ['limit', 'cursor', 'q']));
  const wrong = own.chain((name) =>
    hostileValue(name).map((value) => writeQuery([[name, value]]).slice(0, MAX_QUERY_LENGTH)),
  );
  const junk = fc.constantFrom(...JUNK_QUERIES);
  const foreign = fc.constantFrom(...FOREIGN_NAMES).map((name) => writeQuery([[name, '1']]));
  const any = fc.oneof({ weight: 3, arbitrary: wrong }, junk, foreign);
  return fc.tuple(goodQuery({ query }, symbolOf), any).map((parts) => parts.filter(Boolean).join('&'));
}

function writeQuery(list: readonly QueryParameter[]): string {
  return list.map(([name, value]) => `${percent(name)}=${writeValue(value)}`).join('&');
}

function writeValue(value: unknown): string {
  if (value === undefined) return '';
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return /^\{\{\w+\}\}$/.test(text) ? text : percent(text);
}

function percent(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}
