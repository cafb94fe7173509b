import { METHODS } from 'node:http';
import fc from 'fast-check';
import { hostileBody, validBody, type Encoding } from './bodies.js';
import { LABEL, SECRET } from './canaries.js';
import { badCredentials, goodCredentials, toHeaderValue } from './credentials.js';
import { FORM_TYPE, type Operation, type Parameter } from './document.js';
import { badPath, badQuery, goodPath, goodQuery, junkSegment, symbols } from './targets.js';
import { hostileText, validValue } from './values.js';
import type { Header } from './send.js';
import type { GeneratedRequest, Media } from './wire.js';

/** How to generate each part of a request. */
type Parts = { readonly [Part in keyof GeneratedRequest]: fc.Arbitrary<GeneratedRequest[Part]> };

const PARTS = ['method', 'path', 'query', 'credentials', 'body', 'media', 'extra'] as const;
const JSON_TYPE: Media = { type: 'application/json', chunked: false };
const GOOD_MEDIA: readonly Media[] = [
  ...[JSON_TYPE, JSON_TYPE, { ...JSON_TYPE, chunked: true }],
  ...[
    { ...JSON_TYPE, compress: 'gzip' as const },
    { ...JSON_TYPE, compress: 'deflate' as const },
  ],
  { type: 'Application/JSON; charset="UTF-8"', chunked: false },
];
const BAD_TYPES = [
  ...['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', 'application/xml'],
  ...['', '*/*', 'application/json; charset=utf-7', 'application/json; charset=utf-16'],
  ...[`application/json; charset=${SECRET}`, `text/${SECRET}`, 'application/json, text/plain'],
  ...['application/vnd.api+json', 'application/json;;;', '/', 'json'],
];
const BAD_ENCODINGS = ['gzip', 'br', 'zstd', 'deflate', 'identity', 'zip', SECRET, 'gzip, gzip', ''];
const HEADER_NAMES = [
  ...[
    'X-Platform-Target',
    'X-Platform-Scope',
    'X-Target',
    'X-Request-Id',
    'X-Forwarded-For',
    'Forwarded',
    'User-Agent',
    'Referer',
  ],
  ...['Origin', 'Cookie', 'Accept', 'Via'],
  ...['Range', 'If-Match', 'If-None-Match', 'If-Modified-Since', 'If-Unmodified-Since', 'If-Range', 'Expect', 'TE'],
  ...['X-HTTP-Method-Override', 'X-Original-URL', 'Accept-Encoding', 'Accept-Language', 'Prefer', 'traceparent'],
  ...['Sec-Fetch-Site', 'Access-Control-Request-Method', 'X-Forwarded-Host', 'X-Forwarded-Proto', 'Proxy'],
  'Content-Language',
];
const CONDITIONS = ['*', '"x"', 'bytes=99999999-', 'bytes=0-0', 'bytes=0-1,3-4', '100-continue', 'DELETE'];
const OTHER_VALUES = ['Thu, 01 Jan 1970 00:00:00 GMT', 'Fri, 01 Jan 2100 00:00:00 GMT', 'gzip;q=0', '127.0.0.1'];
const DOCS_ROOTS = [
  '/docs',
  '/docs/',
  '/docs-json',
  '/docs-yaml',
  '/docs/swagger-ui.css',
  '/docs/swagger-ui-bundle.js',
];
const DOCS_FILES = ['/docs/LICENSE', '/docs/package.json', '/favicon.ico', '/.env', '/metrics'];

/** Any request to an operation: valid by the document, with one invalid part, or with several. */
export function createRequest(operation: Operation): fc.Arbitrary<GeneratedRequest> {
  const good = goodParts(operation);
  const bad = badParts(operation);
  const oneBad = PARTS.map((part) => fc.record<GeneratedRequest>({ ...good, [part]: bad[part] }));
  return fc.oneof(
    { weight: 6, arbitrary: fc.record<GeneratedRequest>(good) },
    { weight: 9, arbitrary: fc.oneof(...oneBad) },
    { weight: 5, arbitrary: fc.record<GeneratedRequest>({ ...anyParts(good, bad), method: good.method }) },
  );
}

/** A request that reaches no operation: for the documentation's files, or with path traversal. */
export function createStrayRequest(operations: readonly Operation[]): fc.Arbitrary<GeneratedRequest> {
  const paths = fc.oneof(
    fc.constantFrom('/', ...DOCS_ROOTS, ...DOCS_FILES),
    fc
      .tuple(fc.constantFrom(...DOCS_ROOTS, '/', '/internal/', '/api/v0/'), junkSegment())
      .map((segments) => segments.join('/')),
  );
  const nowhere = { query: [], security: [], body: undefined, isForm: false };
  const noSymbol = (): undefined => undefined;
  const anywhere = fc.constantFrom(...operations).chain((operation) => badPath(operation));
  return fc.record<GeneratedRequest>({
    method: fc.constantFrom('GET', 'GET', 'GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS'),
    path: fc.oneof({ weight: 3, arbitrary: paths }, anywhere),
    query: fc.oneof(fc.constant(''), badQuery(nowhere, noSymbol)),
    credentials: badCredentials(nowhere),
    body: fc.option(hostileBody(nowhere, noSymbol), { nil: undefined, freq: 2 }),
    media: fc.oneof(fc.constant(JSON_TYPE), badMedia()),
    extra: extraHeaders(),
  });
}

function goodParts(operation: Operation): Parts {
  const symbolOf = symbols(operation);
  return {
    method: fc.constant(operation.method),
    path: goodPath(operation),
    query: goodQuery(operation, symbolOf),
    credentials: goodCredentials(operation),
    body: validBody(operation, symbolOf),
    media: fc.constantFrom(...GOOD_MEDIA).map((media) => (operation.isForm ? { ...media, type: FORM_TYPE } : media)),
    extra: requiredHeaders(operation.requiredHeaders),
  };
}

function badParts(operation: Operation): Parts {
  const symbolOf = symbols(operation);
  return {
    method: fc.constantFrom(...METHODS.filter((method) => method !== 'CONNECT')),
    path: badPath(operation),
    query: badQuery(operation, symbolOf),
    credentials: badCredentials(operation),
    body: hostileBody(operation, symbolOf),
    media: badMedia(),
    extra: extraHeaders(),
  };
}

/** The only required header so far names the target of an app key. */
function requiredHeaders(parameters: readonly Parameter[]): fc.Arbitrary<Header[]> {
  const headers = parameters.map(({ name, schema }) =>
    validValue('target', schema, '{{target}}').map((value): Header => [name, String(value)]),
  );
  return fc.tuple(...headers);
}

function anyParts(good: Parts, bad: Parts): Parts {
  return {
    method: fc.oneof(good.method, bad.method),
    path: fc.oneof(good.path, bad.path),
    query: fc.oneof(good.query, bad.query),
    credentials: fc.oneof(good.credentials, bad.credentials),
    body: fc.oneof(good.body, bad.body),
    media: fc.oneof(good.media, bad.media),
    extra: fc.oneof(good.extra, bad.extra),
  };
}

function badMedia(): fc.Arbitrary<Media> {
  return fc.record<Media>({
    type: fc.oneof(fc.constant('application/json'), fc.constantFrom(undefined, ...BAD_TYPES)),
    chunked: fc.boolean(),
    compress: fc.constantFrom<(Encoding | undefined)[]>(undefined, undefined, 'gzip', 'br', 'deflate'),
    encoding: fc.option(fc.constantFrom(...BAD_ENCODINGS), { nil: undefined }),
  });
}

function extraHeaders(): fc.Arbitrary<Header[]> {
  const values = fc.oneof(
    hostileText(SECRET).map(toHeaderValue),
    fc.constantFrom(...CONDITIONS, `${SECRET} \xff`),
    fc.constantFrom(...OTHER_VALUES, 'websocket'),
  );
  const sane = fc.constantFrom<Header[]>(['X-Request-Id', 'caller-1.a_B'], ['Origin', 'null'], ['Accept', 'text/html']);
  const hostile = fc.tuple(fc.constantFrom(...HEADER_NAMES), values).map(([name, value]): Header => {
    // Makes the id invalid, because a valid request id is logged, and a canary must not be.
    if (name === 'X-Request-Id') return [name, `${value}<`];
    // The user agent gets the other canary, because the list of sessions shows it.
    if (name === 'User-Agent') return [name, value.replaceAll(SECRET, LABEL)];
    return [name, value];
  });
  return fc.array(fc.oneof({ weight: 5, arbitrary: hostile }, sane), { minLength: 1, maxLength: 4 });
}
