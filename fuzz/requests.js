import { METHODS } from 'node:http';
import fc from 'fast-check';
import { hostileBody, validBody } from './bodies.js';
import { SECRET } from './canaries.js';
import { asHeaderValue, badCredentials, goodCredentials } from './credentials.js';
import { FOREIGN_NAMES, hostileText, hostileValue, validValue } from './values.js';

const percent = (text) => encodeURIComponent(String(text).toWellFormed());
const JSON_TYPE = { type: 'application/json', chunked: false };

/**
 * Any request to an operation: as the document asks for it, with one part wrong, or with any number of them.
 * @returns an arbitrary of `{ method, path, query, credentials, body, media, extra }`, which is plain data
 */
export function requestTo(operation) {
  const symbolOf = symbols(operation);
  const good = {
    method: fc.constant(operation.method),
    path: goodPath(operation),
    query: goodQuery(operation, symbolOf),
    credentials: goodCredentials(operation),
    body: validBody(operation, symbolOf),
    media: fc.constantFrom(
      ...[JSON_TYPE, JSON_TYPE, { ...JSON_TYPE, chunked: true }, { ...JSON_TYPE, compress: 'gzip' }],
      ...[
        { ...JSON_TYPE, compress: 'br' },
        { type: 'Application/JSON; charset="UTF-8"', chunked: false },
      ],
    ),
    extra: fc.constant([]),
  };
  const bad = {
    method: fc.constantFrom(...METHODS.filter((method) => method !== 'CONNECT')),
    path: badPath(operation),
    query: badQuery(operation, symbolOf),
    credentials: badCredentials(operation),
    body: hostileBody(operation, symbolOf),
    media: badMedia(),
    extra: extraHeaders(),
  };
  const oneBad = Object.keys(bad).map((part) => fc.record({ ...good, [part]: bad[part] }));
  const anyBad = Object.fromEntries(Object.keys(bad).map((part) => [part, fc.oneof(good[part], bad[part])]));
  return fc.oneof(
    { weight: 6, arbitrary: fc.record(good) },
    { weight: 9, arbitrary: fc.oneof(...oneBad) },
    { weight: 5, arbitrary: fc.record({ ...anyBad, method: good.method }) },
  );
}

/** A request to no operation: the documentation's files, and paths that lead out of it. */
export function requestToNowhere(operations) {
  const roots = ['/docs', '/docs/', '/docs-json', '/docs-yaml', '/docs/swagger-ui.css', '/docs/swagger-ui-bundle.js'];
  const paths = fc.oneof(
    fc.constantFrom('/', ...roots, '/docs/LICENSE', '/docs/package.json', '/favicon.ico', '/.env', '/metrics'),
    fc.tuple(fc.constantFrom(...roots, '/', '/internal/', '/api/v0/'), junkSegment()).map((parts) => parts.join('/')),
  );
  const nowhere = { method: 'GET', template: '/', query: [], security: [], body: undefined };
  const anywhere = fc.constantFrom(...operations).chain((operation) => badPath(operation));
  return fc.record({
    method: fc.constantFrom('GET', 'GET', 'GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS'),
    path: fc.oneof({ weight: 3, arbitrary: paths }, anywhere),
    query: fc.oneof(
      fc.constant(''),
      badQuery(nowhere, () => undefined),
    ),
    credentials: badCredentials(nowhere),
    body: fc.option(
      hostileBody(nowhere, () => undefined),
      { nil: undefined, freq: 2 },
    ),
    media: fc.oneof(fc.constant(JSON_TYPE), badMedia()),
    extra: extraHeaders(),
  });
}

/** Which live value fits a field or a path parameter of an operation. */
function symbols({ template }) {
  const plain = ['refresh_token', 'app_id', 'node_id', 'cursor', 'target', 'caller', 'household_id'];
  return (field) => {
    if (field === 'id') return '{{user_id}}';
    if (field === 'cursor' && !template.endsWith('app-credentials')) return undefined;
    if (/^(email|password)$/.test(field)) return template.endsWith('/login') ? `{{${field}}}` : undefined;
    return plain.includes(field) ? `{{${field}}}` : undefined;
  };
}

function goodPath(operation) {
  const names = [...operation.template.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  const values = names.map((name) => validValue(name, { format: 'uuid' }, symbols(operation)(name)));
  const named = (list) => names.reduce((path, name, i) => path.replace(`{${name}}`, list[i]), operation.template);
  return fc.tuple(...values).map(named);
}

function junkSegment() {
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

function badPath(operation) {
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

function goodQuery({ query }, symbolOf) {
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

function badQuery({ query }, symbolOf) {
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
    ],
  );
  const foreign = fc.constantFrom(...FOREIGN_NAMES).map((name) => writeQuery([[name, '1']]));
  const any = fc.oneof({ weight: 3, arbitrary: wrong }, junk, foreign);
  return fc.tuple(goodQuery({ query }, symbolOf), any).map((parts) => parts.filter(Boolean).join('&'));
}

function badMedia() {
  const types = [
    ...[
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/xml',
      '',
      '*/*',
    ],
    ...['application/json; charset=utf-7', 'application/json; charset=utf-16', `application/json; charset=${SECRET}`],
    ...[
      `text/${SECRET}`,
      'application/json, text/plain',
      'application/vnd.api+json',
      'application/json;;;',
      '/',
      'json',
    ],
  ];
  return fc.record({
    type: fc.oneof(fc.constant('application/json'), fc.constantFrom(undefined, ...types)),
    chunked: fc.boolean(),
    compress: fc.constantFrom(undefined, undefined, 'gzip', 'br', 'deflate'),
    /** What the header claims, when that is not what was done. */
    encoding: fc.option(fc.constantFrom('gzip', 'br', 'deflate', 'identity', 'zip', SECRET, 'gzip, gzip', ''), {
      nil: undefined,
    }),
  });
}

function extraHeaders() {
  const names = [
    ...['X-Request-Id', 'X-Forwarded-For', 'Forwarded', 'User-Agent', 'Referer', 'Origin', 'Cookie', 'Accept', 'Via'],
    ...['Range', 'If-Match', 'If-None-Match', 'If-Modified-Since', 'If-Unmodified-Since', 'If-Range', 'Expect', 'TE'],
    ...['X-HTTP-Method-Override', 'X-Original-URL', 'Accept-Encoding', 'Accept-Language', 'Prefer', 'traceparent'],
    ...[
      'Sec-Fetch-Site',
      'Access-Control-Request-Method',
      'X-Forwarded-Host',
      'X-Forwarded-Proto',
      'Proxy',
      'Content-Language',
    ],
  ];
  const values = fc.oneof(
    hostileText(SECRET).map(asHeaderValue),
    fc.constantFrom(
      '*',
      '"x"',
      'bytes=99999999-',
      'bytes=0-0',
      'bytes=0-1,3-4',
      '100-continue',
      'DELETE',
      `${SECRET} \xff`,
    ),
    fc.constantFrom(
      'Thu, 01 Jan 1970 00:00:00 GMT',
      'Fri, 01 Jan 2100 00:00:00 GMT',
      'gzip;q=0',
      '127.0.0.1',
      'websocket',
    ),
  );
  const sane = fc.constantFrom(['X-Request-Id', 'caller-1.a_B'], ['Origin', 'null'], ['Accept', 'text/html']);
  // A sane request id is taken over, and then it is returned and logged.
  const pair = fc.tuple(fc.constantFrom(...names), values);
  const hostile = pair.map(([name, value]) => [name, name === 'X-Request-Id' ? `${value}<` : value]);
  return fc.array(fc.oneof({ weight: 5, arbitrary: hostile }, sane), { minLength: 1, maxLength: 4 });
}
