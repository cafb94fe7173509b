import { isDeepStrictEqual } from 'node:util';
import { untilVerdict } from '../../tools/repeat-while.js';
import * as standIn from './stand-in.js';
import type { StandIn } from './stand-in.js';

type HeadersOfDoor = Readonly<Record<string, string>>;

/** Credentials that the service under test is asked with, all of one platform-auth. */
export interface Credentials {
  readonly user: HeadersOfDoor;
  readonly endedSession: HeadersOfDoor;
  /** For the guarded service, `recipes`, and for another one. */
  readonly app: HeadersOfDoor;
  readonly foreignApp: HeadersOfDoor;
  /** For `recipes` too, with the scope `documents:read` alone. */
  readonly restrictedApp: HeadersOfDoor;
  readonly node: HeadersOfDoor;
}

/** Of the guarded service: the door of each, and the scope that it names. */
export const ROUTES = {
  '/user': ['user', undefined],
  '/app': ['app', undefined],
  '/node': ['node', undefined],
  '/documents': ['app', 'documents:read'],
  '/images': ['app', 'images:write'],
} as const;

interface Expected {
  readonly status: number;
  readonly code?: string;
}

interface Case {
  readonly name: string;
  readonly expected: Expected;
}

interface VerdictCase extends Case {
  readonly path: keyof typeof ROUTES;
  readonly headers: (credentials: Credentials) => HeadersOfDoor;
}

interface AnswerCase extends Case {
  readonly answers: Parameters<StandIn['answerWith']>;
  /** How often platform-auth is asked. */
  readonly requests: number;
}

const OK = { status: 200 };
const UNAVAILABLE = { status: 503, code: 'unavailable' };
const INVALID_NODE = { status: 401, code: 'invalid_node_credentials' };
const INVALID_APP = { status: 401, code: 'invalid_app_credentials' };
const MISSING_SCOPE = { status: 403, code: 'missing_scope' };
const INVALID_TOKEN = { status: 401, code: 'invalid_access_token' };

type VerdictRow = [VerdictCase['name'], VerdictCase['path'], VerdictCase['headers'], Expected];

const VERDICT_ROWS: readonly VerdictRow[] = [
  ['admits a user', '/user', ({ user }) => user, OK],
  ['admits a service', '/app', ({ app }) => app, OK],
  ['admits a node', '/node', ({ node }) => node, OK],
  ['asks for an access token', '/user', () => ({}), { status: 401, code: 'missing_access_token' }],
  ['refuses a token that is none', '/user', () => ({ Authorization: 'Bearer x' }), INVALID_TOKEN],
  ['refuses the token of a session that has ended', '/user', ({ endedSession }) => endedSession, INVALID_TOKEN],
  ['refuses a request without an app key', '/app', () => ({}), INVALID_APP],
  ['refuses an app key for another service', '/app', ({ foreignApp }) => foreignApp, INVALID_APP],
  [
    'ignores a target that the caller sends',
    '/app',
    ({ foreignApp }) => ({ ...foreignApp, 'X-Platform-Target': 'speech' }),
    INVALID_APP,
  ],
  ['admits a restricted app key for its scope', '/documents', ({ restrictedApp }) => restrictedApp, OK],
  ['admits an app key without restrictions for a scope', '/documents', ({ app }) => app, OK],
  ['refuses a restricted app key for another scope', '/images', ({ restrictedApp }) => restrictedApp, MISSING_SCOPE],
  [
    'refuses a restricted app key where the route names no scope',
    '/app',
    ({ restrictedApp }) => restrictedApp,
    MISSING_SCOPE,
  ],
  ['refuses a request without a node key', '/node', () => ({}), INVALID_NODE],
  ['refuses a wrong node key', '/node', () => ({ 'X-API-Key': 'a:b' }), INVALID_NODE],
  ['refuses a node key with other characters than ASCII', '/node', () => ({ 'X-API-Key': 'kü:çhe' }), INVALID_NODE],
  ['refuses a node key of 15,000 characters', '/node', () => ({ 'X-API-Key': 'x'.repeat(15_000) }), INVALID_NODE],
];

/** Asked of the real service. */
export const VERDICT_CASES: readonly VerdictCase[] = VERDICT_ROWS.map(([name, path, headers, expected]) => ({
  ...{ name, path, headers, expected },
}));

type AnswerRow = [AnswerCase['name'], AnswerCase['answers'], expected?: Expected, requests?: number];

const { problem, body, page } = standIn;
const ANSWER_ROWS: readonly AnswerRow[] = [
  ['passes a verdict on', [problem(401, 'invalid_node_credentials')], INVALID_NODE],
  ['asks again after a 503', [problem(503, 'unavailable'), standIn.valid], OK, 2],
  ['asks again after a broken connection', [standIn.breakConnection, standIn.valid], OK, 2],
  ['asks twice at most', [problem(503, 'unavailable')], UNAVAILABLE, 2],
  ['answers 503 when connections break', [standIn.breakConnection], UNAVAILABLE, 2],
  ['never asks again after a time-out', [standIn.hang, standIn.valid]],
  ['takes a 401 on its own app key for no verdict', [problem(401, 'invalid_app_credentials')]],
  ['takes a 401 of another server for no verdict', [page(401)]],
  ['takes a 200 of another server for no verdict', [page(200)]],
  ['takes a 200 with another body for no verdict', [standIn.invalidBody]],
  ...['["documents:read"]', '"documents:read"'].map((scopes): AnswerRow => [
    `refuses a credential with the scopes ${scopes}, which it did not ask for`,
    [body(200, `{"valid":true,"scopes":${scopes}}`)],
    MISSING_SCOPE,
  ]),
  ['takes a 401 whose code is not a text for no verdict', [body(401, '{"code":["invalid_node_credentials"]}')]],
  ...['{}', 'null', '["duplicate_header"]'].map((code): AnswerRow => [
    `answers 503 at a 400 with the code ${code}`,
    [body(400, `{"code":${code}}`)],
  ]),
  ...[200, 401].map((status): AnswerRow => [
    `takes a ${status} that is nested 200,000 deep for no verdict`,
    [body(status, '['.repeat(200_000) + ']'.repeat(200_000))],
  ]),
  [
    'passes a verdict on as it is, also with half of a surrogate pair in it',
    [body(401, String.raw`{"code":"invalid_node_credentials","title":"\ud800"}`)],
    INVALID_NODE,
  ],
  ['follows no redirect', [standIn.redirect, standIn.valid]],
  ['answers 503 when its own request is not valid', [problem(400, 'validation_failed')]],
  ['answers 503 when the path does not exist', [problem(404, 'not_found')]],
  ['answers 503 at a 429', [problem(429, 'too_many_requests')]],
  ['answers 503 at a 500', [problem(500, 'internal_error')]],
  ...(
    [
      [400, 'duplicate_header'],
      [431, 'headers_too_large'],
    ] as const
  ).map(([status, code]): AnswerRow => [
    `passes a ${status} about the credential on`,
    [problem(status, code)],
    { status, code },
  ]),
];

/** Asked of a stand-in, at /node: once, and answered with 503, unless the row says otherwise. */
export const ANSWER_CASES: readonly AnswerCase[] = ANSWER_ROWS.map(
  ([name, answers, expected = UNAVAILABLE, requests = 1]) => ({ name, answers, expected, requests }),
);

/** As {@link expectAnswer}, of the real service: a busy machine may answer 503 for a moment. */
export function expectVerdict(url: string, headers: HeadersOfDoor, expected: Expected): Promise<unknown> {
  return expectAnswer(url, headers, expected, () => untilVerdict(() => fetch(url, { headers })));
}

/** Sends a request to the guarded service. @throws when the answer is another, or not a correct problem document */
export async function expectAnswer(
  url: string,
  headers: HeadersOfDoor,
  expected: Expected,
  ask = (): Promise<Response> => fetch(url, { headers }),
): Promise<unknown> {
  const response = await ask();
  const body = (await response.json()) as { readonly code?: string; readonly valid?: boolean };
  const seen = { status: response.status, ...(response.status !== 200 && { code: body.code }) };
  if (!isDeepStrictEqual(seen, expected)) throw new Error(`${url} answered ${JSON.stringify({ ...seen, body })}`);
  if (response.status === 200) return body;
  const required = { 401: 'www-authenticate', 503: 'retry-after' }[response.status] ?? 'content-type';
  if (!response.headers.has(required)) throw new Error(`${url} answered ${response.status} without ${required}`);
  const type = response.headers.get('content-type');
  if (!/^application\/problem\+json\b/.test(type ?? '')) throw new Error(`${url} answered ${type ?? 'without a type'}`);
  return body;
}
