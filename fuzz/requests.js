import { METHODS } from 'node:http';
import fc from 'fast-check';
import { hostileBody, validBody } from './bodies.js';
import { SECRET } from './canaries.js';
import { asHeaderValue, badCredentials, goodCredentials } from './credentials.js';
import { badPath, badQuery, goodPath, goodQuery, junkSegment, symbols } from './targets.js';
import { hostileText } from './values.js';

const JSON_TYPE = { type: 'application/json', chunked: false };

/**
 * Any request to an operation: valid by the document, with one invalid part, or with any number of them.
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
        { ...JSON_TYPE, compress: 'deflate' },
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

/** A request that reaches no operation: the documentation's files, and path traversal. */
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
    /** The Content-Encoding that the header claims, when it differs from the real one. */
    encoding: fc.option(fc.constantFrom('gzip', 'br', 'zstd', 'deflate', 'identity', 'zip', SECRET, 'gzip, gzip', ''), {
      nil: undefined,
    }),
  });
}

function extraHeaders() {
  const names = [
    ...[
      'X-Platform-Target',
      'X-Target',
      'X-Request-Id',
      'X-Forwarded-For',
      'Forwarded',
      'User-Agent',
      'Referer',
      'Origin',
      'Cookie',
      'Accept',
      'Via',
    ],
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
  // A valid request id of the caller is logged, so that a canary must not be a valid one.
  const pair = fc.tuple(fc.constantFrom(...names), values);
  const hostile = pair.map(([name, value]) => [name, name === 'X-Request-Id' ? `${value}<` : value]);
  return fc.array(fc.oneof({ weight: 5, arbitrary: hostile }, sane), { minLength: 1, maxLength: 4 });
}
