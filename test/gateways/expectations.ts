import { isDeepStrictEqual } from 'node:util';
import { parseReceived, type Answer, type Received } from './http.js';

export function expectEqual(found: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(found, expected))
    throw new Error(`found ${JSON.stringify(found)} instead of ${JSON.stringify(expected)}`);
}

/** What the upstream takes for the identity: frameworks read underscores and dots as hyphens. */
export function identityOf({ headers }: Received): Record<string, string> {
  const found = headers.filter(([name]) => /^x[-_.]auth[-_.]/.test(name));
  const identity = Object.fromEntries(found.sort(([a], [b]) => a.localeCompare(b)));
  if (Object.keys(identity).length !== found.length) throw new Error(`repeated: ${JSON.stringify(found)}`);
  return identity;
}

export function expectIdentity(answer: Answer, expected: Readonly<Record<string, string>>): Received {
  if (answer.status !== 200) throw new Error(`${answer.status} ${answer.body}`);
  const received = parseReceived(answer);
  expectEqual(identityOf(received), expected);
  return received;
}

export function expectRefusal({ status, headers, body }: Answer, code: string, challenge: string): void {
  const problem = JSON.parse(body) as { code?: string; status?: number; type?: string };
  const type = `/problems/${code.replaceAll('_', '-')}`;
  expectEqual({ status, code: problem.code, type: problem.type }, { status: 401, code, type });
  const challenges = headers['www-authenticate'] ?? [];
  if (challenges.length !== 1 || !challenges[0]?.startsWith(challenge))
    throw new Error(`the challenges ${JSON.stringify(challenges)}`);
  expectProblemDocument(headers);
}

export function expectMissingScope({ status, headers, body }: Answer, scope: string): void {
  if (status !== 403) throw new Error(`${status} ${body}`);
  const { type, code, scopes } = JSON.parse(body) as { type?: string; code?: string; scopes?: string[] };
  expectEqual({ type, code, scopes }, { type: '/problems/missing-scope', code: 'missing_scope', scopes: [scope] });
  expectProblemDocument(headers);
}

function expectProblemDocument(headers: Answer['headers']): void {
  const types = headers['content-type'] ?? [];
  if (types.length !== 1 || !types[0]?.startsWith('application/problem+json'))
    throw new Error(`the content types ${JSON.stringify(types)}`);
}

export function expectUnavailable({ status, headers, body }: Answer): void {
  if (status !== 503) throw new Error(`${status} ${body}`);
  if (headers['retry-after'] === undefined) throw new Error('no Retry-After');
  expectProblemDocument(headers);
}
