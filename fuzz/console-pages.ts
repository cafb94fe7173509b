import fc from 'fast-check';
import { SECRET } from './canaries.js';
import type { Lane, Progress } from './lane.js';
import type { Answer, Client, Failure, Header } from './send.js';
import { junkSegment } from './targets.js';
import { hostileText } from './values.js';

const PAGES = [
  '',
  'map',
  'keys',
  'homes',
  'people',
  'operators',
  'passkeys',
  'why',
  'audit',
  'audit.csv',
  'audit.ndjson',
  'login',
  'static',
];
const ACTS = ['new', 'rotate', 'finish', 'change', 'revoke', 'disable', 'delete', 'unlock', 'reset-password'];
const FIELDS = [
  ...['about', 'address', 'service', 'cursor', 'limit', 'search', 'live', 'unused_since', 'event', 'actor', 'subject'],
  ...[
    'next',
    'key',
    'passkey',
    'new_passkey',
    'form',
    'seen',
    'name',
    'email',
    'password',
    'caller',
    'scopes',
    'household_id',
    'room',
    '__proto__',
  ],
];
const MAX_FIELDS = 8;
const MAX_TARGET_LENGTH = 8_000;
const SCRIPT = '<script type="module" src="/console/static/console.js">';

interface PageRequest {
  readonly method: string;
  readonly path: string;
  readonly fields: readonly (readonly [name: string, value: string])[];
  /** `own`, `none`, or a value. */
  readonly cookie: string;
  readonly origin: string;
  /** Whether the form has the proof of a page of this session. */
  readonly isProven: boolean;
}

/**
 * @returns a lane that calls the pages of operators, with and without a session; no act may succeed without a page's
 * proof
 */
export function createConsoleLane(client: Client, adminKey: string, progress: Progress): Lane<PageRequest> {
  const origin = `http://127.0.0.1:${client.port}`;
  let session: Promise<string> | undefined;
  const attempt = async (request: PageRequest): Promise<string | undefined> => {
    session ??= logIn(client, origin, adminKey);
    const answer = await client.send(await toWire(request, { client, origin, session: await session }));
    progress.requests += 1;
    // The form ended the session, or logged in with a key, so the next request begins a new session.
    if ('status' in answer && answer.status === 303 && request.cookie === 'own') session = undefined;
    const wrong = judge(answer);
    return wrong && `${request.method} ${request.path}: ${wrong}`;
  };
  return { name: 'pages of operators', requests: anyRequest(), attempt };
}

function anyRequest(): fc.Arbitrary<PageRequest> {
  const segment = fc.oneof(fc.constantFrom(...ACTS), fc.uuid(), junkSegment());
  const path = fc
    .tuple(fc.constantFrom(...PAGES), fc.array(segment, { maxLength: 2 }))
    .map((parts) => ['/console', ...parts.flat()].filter(Boolean).join('/').slice(0, MAX_TARGET_LENGTH));
  const value = fc.oneof(hostileText(SECRET), fc.uuid(), fc.constantFrom('true', '192.0.2.7', 'a@example.org', '20'));
  return fc.record({
    method: fc.constantFrom('GET', 'GET', 'POST', 'POST', 'HEAD', 'DELETE'),
    path,
    fields: fc.array(fc.tuple(fc.constantFrom(...FIELDS), value), { maxLength: MAX_FIELDS }),
    cookie: fc.oneof(
      { weight: 4, arbitrary: fc.constant('own') },
      fc.constant('none'),
      fc.base64String({ maxLength: 60 }),
    ),
    origin: fc.oneof(
      { weight: 4, arbitrary: fc.constant('own') },
      fc.constantFrom('none', 'null', 'https://evil.example'),
    ),
    isProven: fc.boolean(),
  });
}

interface Session {
  readonly client: Client;
  readonly origin: string;
  readonly session: string;
}

async function toWire(request: PageRequest, { client, origin, session }: Session) {
  const { method, path, fields, cookie } = request;
  const own = cookie === 'own' ? session : `console=${cookie}`;
  const headers: Header[] = cookie === 'none' ? [] : [['Cookie', own]];
  const isForm = method === 'POST';
  const all = fields.map(([name, value]): [string, string] => [name, value.toWellFormed()]);
  if (isForm && request.isProven) all.push(['form', await readProof(client, session)]);
  const text = new URLSearchParams(all).toString();
  if (request.origin !== 'none') headers.push(['Origin', request.origin === 'own' ? origin : request.origin]);
  if (isForm) headers.push(['Content-Type', 'application/x-www-form-urlencoded']);
  const target = isForm || text === '' ? path : `${path}?${text}`.slice(0, MAX_TARGET_LENGTH);
  return { method, target, headers, body: isForm ? Buffer.from(text) : undefined, chunked: false };
}

async function readProof(client: Client, session: string): Promise<string> {
  const answer = await send(client, 'GET', '/console/why', [['Cookie', session]]);
  return 'body' in answer ? (/name="form" value="([^"]*)"/.exec(answer.body)?.[1] ?? '') : '';
}

async function logIn(client: Client, origin: string, key: string): Promise<string> {
  const headers: Header[] = [
    ['Origin', origin],
    ['Content-Type', 'application/x-www-form-urlencoded'],
  ];
  const answer = await send(
    client,
    'POST',
    '/console/login',
    headers,
    Buffer.from(new URLSearchParams({ key }).toString()),
  );
  const cookie = 'headers' in answer ? answer.headers['set-cookie']?.[0]?.split(';', 1)[0] : undefined;
  if (cookie === undefined) throw new Error(`The login at the console failed: ${JSON.stringify(answer).slice(0, 300)}`);
  return cookie;
}

function send(client: Client, method: string, target: string, headers: readonly Header[], body?: Buffer) {
  return client.send({ method, target, headers, body, chunked: false });
}

/** Refuses a 5xx, a page without the policy, a foreign script, and a redirect to another origin. */
function judge(answer: Answer | Failure): string | undefined {
  if ('failure' in answer) return answer.failure;
  const { status, headers, body } = answer;
  // On a busy machine the service may lose its lease, or its queue of passwords may be full.
  if (status >= 500 && status !== 503) return `the service failed: ${status}`;
  if (status === 303)
    return /^\/console(\/|\?|$)/.test(headers.location ?? '') ? undefined : `a redirect to ${headers.location}`;
  if (!(headers['content-type'] ?? '').startsWith('text/html') || body === '') return undefined;
  if (!headers['content-security-policy']?.includes("default-src 'none'")) return `${status} without a policy`;
  if (headers['cache-control'] !== 'no-store') return `${status} may be cached`;
  if (body.replace(SCRIPT, '').includes('<script')) return `${status} with a script in the text`;
  return undefined;
}
