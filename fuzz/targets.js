import fc from 'fast-check';
import { SECRET } from './canaries.js';
import { FOREIGN_NAMES, hostileText, hostileValue, validValue } from './values.js';

const percent = (text) => encodeURIComponent(String(text).toWellFormed());

/** Maps a field or a path parameter of an operation to the symbol of a live value. */
export function symbols({ template }) {
  const plain = ['refresh_token', 'app_id', 'node_id', 'cursor', 'target', 'caller', 'household_id'];
  return (field) => {
    if (field === 'id') return '{{user_id}}';
    if (/^(email|password)$/.test(field)) return template.endsWith('/login') ? `{{${field}}}` : undefined;
    return plain.includes(field) ? `{{${field}}}` : undefined;
  };
}

/** A valid path by the document, with an existing or a random id. */
export function goodPath(operation) {
  const names = [...operation.template.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  const values = names.map((name) => validValue(name, { format: 'uuid' }, symbols(operation)(name)));
  const named = (list) => names.reduce((path, name, i) => path.replace(`{${name}}`, list[i]), operation.template);
  return fc.tuple(...values).map(named);
}

/** A segment that is not valid in a path. */
export function junkSegment() {
  const classics = [
    ...[
      '%',
      '%zz',
      '%00',
      '%0d%0aSet-Cookie:a=b',
      '%E0%A4%A',
      '%c0%ae%c0%ae',
      '..%2f..%2fetc%2fpasswd',
      '%2e%2e',
      '..',
    ],
    ...[
      '.',
      ';a=b',
      'me',
      '__proto__',
      'constructor',
      '%252e%252e%252f',
      "'",
      '*',
      ':id',
      '{id}',
      '%ff',
      'x'.repeat(4_000),
    ],
  ];
  return fc.oneof(
    fc.constantFrom(...classics).map((text) => text + SECRET),
    fc.constantFrom(...classics),
    hostileText(SECRET).map((text) => percent(text).slice(0, 6_000)),
  );
}

/** A hostile path, or a variant spelling of a valid one. */
export function badPath(operation) {
  const parts = fc.tuple(
    goodPath(operation),
    junkSegment(),
    fc.constantFrom('in', 'after', 'before', 'slash', 'case', 'double', 'short'),
  );
  return parts.map(([path, junk, place]) => {
    const inside = operation.template.includes('{') ? operation.template.replace(/\{\w+\}/, junk) : `${path}/${junk}`;
    const changed = {
      in: inside,
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
export function goodQuery({ query }, symbolOf) {
  const all = query.map(({ name, schema }) =>
    fc.option(validValue(name, schema, symbolOf(name)), { nil: undefined }).map((value) => [name, value]),
  );
  return fc.tuple(...all).map((list) => writeQuery(list.filter(([, value]) => value !== undefined)));
}

function writeQuery(list) {
  const write = (value) => (typeof value === 'string' ? value : (JSON.stringify(value) ?? ''));
  const symbolOr = (text) => (/^\{\{\w+\}\}$/.test(text) ? text : percent(text));
  return list.map(([name, value]) => `${percent(name)}=${symbolOr(write(value))}`).join('&');
}

/** A query with one error. */
export function badQuery({ query }, symbolOf) {
  const names = query.map(({ name }) => name);
  const own = names.length > 0 ? fc.constantFrom(...names) : fc.constantFrom('limit', 'cursor', 'q');
  const wrong = own.chain((name) => hostileValue(name).map((value) => writeQuery([[name, value]]).slice(0, 8_000)));
  const junk = fc.constantFrom(
    ...['%', '%zz', '=', '&&&', '?', 'limit', 'limit=', 'limit=1&limit=2', 'limit[]=1', 'limit[a][b]=1', 'limit=0x10'],
    ...[
      '__proto__=x',
      '__proto__[x]=1',
      '%5f_proto__=x',
      'constructor=1',
      'limit=1%00',
      'limit=%ff',
      'cursor=%00',
      `${SECRET}=1`,
      'limit=1&'.repeat(40),
      Array.from({ length: 2_000 }, (_, i) => `q${i}`).join('&'),
    ],
  );
  const foreign = fc.constantFrom(...FOREIGN_NAMES).map((name) => writeQuery([[name, '1']]));
  const any = fc.oneof({ weight: 3, arbitrary: wrong }, junk, foreign);
  return fc.tuple(goodQuery({ query }, symbolOf), any).map((parts) => parts.filter(Boolean).join('&'));
}
