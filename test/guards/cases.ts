import { isDeepStrictEqual } from 'node:util';
import { untilVerdict } from '../../tools/repeat-while.js';
import * as standIn from './stand-in.js';
import type { StandIn } from './stand-in.js';

export type HeadersOfDoor = Readonly<Record<string, string>>;

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

export interface Expected {
  readonly status: number;
  readonly code?: string;
}

interface Case {
  readonly name: string;
  readonly expected: Expected;
}

export interface VerdictCase extends Case {
  readonly path: keyof typeof ROUTES;
  readonly headers: (credentials: Credentials) => HeadersOfDoor;
}

export interface AnswerCase extends Case {
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

/** Asked of the real service. */
export const VERDICT_CASES: readonly VerdictCase[] = [
  { name: 'admits a user', path: '/user', headers: ({ user }) => user, expected: OK },
  { name: 'admits a service', path: '/app', headers: ({ app }) => app, expected: OK },
  { name: 'admits a node', path: '/node', headers: ({ node }) => node, expected: OK },
  {
    name: 'asks for an access token',
    path: '/user',
    headers: () => ({}),
    expected: { status: 401, code: 'missing_access_token' },
  },
  {
    name: 'refuses a token that is none',
    path: '/user',
    headers: () => ({ Authorization: 'Bearer x' }),
    expected: INVALID_TOKEN,
  },
  {
    name: 'refuses the token of a session that has ended',
    path: '/user',
    headers: ({ endedSession }) => endedSession,
    expected: INVALID_TOKEN,
  },
  { name: 'refuses a request without an app key', path: '/app', headers: () => ({}), expected: INVALID_APP },
  {
    name: 'refuses an app key for another service',
    path: '/app',
    headers: ({ foreignApp }) => foreignApp,
    expected: INVALID_APP,
  },
  {
    name: 'ignores a target that the caller sends',
    path: '/app',
    headers: ({ foreignApp }) => ({ ...foreignApp, 'X-Platform-Target': 'speech' }),
    expected: INVALID_APP,
  },
  {
    name: 'admits a restricted app key for its scope',
    path: '/documents',
    headers: ({ restrictedApp }) => restrictedApp,
    expected: OK,
  },
  {
    name: 'admits an app key without restrictions for a scope',
    path: '/documents',
    headers: ({ app }) => app,
    expected: OK,
  },
  {
    name: 'refuses a restricted app key for another scope',
    path: '/images',
    headers: ({ restrictedApp }) => restrictedApp,
    expected: MISSING_SCOPE,
  },
  {
    name: 'refuses a restricted app key where the route names no scope',
    path: '/app',
    headers: ({ restrictedApp }) => restrictedApp,
    expected: MISSING_SCOPE,
  },
  { name: 'refuses a request without a node key', path: '/node', headers: () => ({}), expected: INVALID_NODE },
  { name: 'refuses a wrong node key', path: '/node', headers: () => ({ 'X-API-Key': 'a:b' }), expected: INVALID_NODE },
  {
    name: 'refuses a node key with other characters than ASCII',
    path: '/node',
    headers: () => ({ 'X-API-Key': 'kü:çhe' }),
    expected: INVALID_NODE,
  },
  {
    name: 'refuses a node key of 15,000 characters',
    path: '/node',
    headers: () => ({ 'X-API-Key': 'x'.repeat(15_000) }),
    expected: INVALID_NODE,
  },
];

/** Asked of a stand-in, at /node: once, and answered with 503, unless the row says otherwise. */
const ANSWER_ROWS: readonly (Pick<AnswerCase, 'name' | 'answers'> & Partial<AnswerCase>)[] = [
  { name: 'passes a verdict on', answers: [standIn.problem(401, 'invalid_node_credentials')], expected: INVALID_NODE },
  {
    name: 'asks again after a 503',
    answers: [standIn.problem(503, 'unavailable'), standIn.valid],
    requests: 2,
    expected: OK,
  },
  {
    name: 'asks again after a broken connection',
    answers: [standIn.breakConnection, standIn.valid],
    requests: 2,
    expected: OK,
  },
  { name: 'asks twice at most', answers: [standIn.problem(503, 'unavailable')], requests: 2 },
  { name: 'answers 503 when connections break', answers: [standIn.breakConnection], requests: 2 },
  { name: 'never asks again after a time-out', answers: [standIn.hang, standIn.valid] },
  { name: 'takes a 401 on its own app key for no verdict', answers: [standIn.problem(401, 'invalid_app_credentials')] },
  { name: 'takes a 401 of another server for no verdict', answers: [standIn.page(401)] },
  { name: 'takes a 200 of another server for no verdict', answers: [standIn.page(200)] },
  { name: 'takes a 200 with another body for no verdict', answers: [standIn.invalidBody] },
  ...['["documents:read"]', '"documents:read"'].map((scopes) => ({
    name: `refuses a credential with the scopes ${scopes}, which it did not ask for`,
    answers: [standIn.body(200, `{"valid":true,"scopes":${scopes}}`)],
    expected: MISSING_SCOPE,
  })),
  {
    name: 'takes a 401 whose code is not a text for no verdict',
    answers: [standIn.body(401, '{"code":["invalid_node_credentials"]}')],
  },
  ...['{}', 'null', '["duplicate_header"]'].map((code) => ({
    name: `answers 503 at a 400 with the code ${code}`,
    answers: [standIn.body(400, `{"code":${code}}`)],
  })),
  ...[200, 401].map((status) => ({
    name: `takes a ${status} that is nested 200,000 deep for no verdict`,
    answers: [standIn.body(status, '['.repeat(200_000) + ']'.repeat(200_000))],
  })),
  {
    name: 'passes a verdict on as it is, also with half of a surrogate pair in it',
    answers: [standIn.body(401, String.raw`{"code":"invalid_node_credentials","title":"\ud800"}`)],
    expected: INVALID_NODE,
  },
  { name: 'follows no redirect', answers: [standIn.redirect, standIn.valid] },
  { name: 'answers 503 when its own request is not valid', answers: [standIn.problem(400, 'validation_failed')] },
  { name: 'answers 503 when the path does not exist', answers: [standIn.problem(404, 'not_found')] },
  { name: 'answers 503 at a 429', answers: [standIn.problem(429, 'too_many_requests')] },
  { name: 'answers 503 at a 500', answers: [standIn.problem(500, 'internal_error')] },
  {
    name: 'passes a 400 about the credential on',
    answers: [standIn.problem(400, 'duplicate_header')],
    expected: { status: 400, code: 'duplicate_header' },
  },
  {
    name: 'passes a 431 about the credential on',
    answers: [standIn.problem(431, 'headers_too_large')],
    expected: { status: 431, code: 'headers_too_large' },
  },
];

export const ANSWER_CASES: readonly AnswerCase[] = ANSWER_ROWS.map((row) => ({
  requests: 1,
  expected: UNAVAILABLE,
  ...row,
}));

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
