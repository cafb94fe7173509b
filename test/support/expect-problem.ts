import type { Response } from 'supertest';
import { problems, toProblemType, type Problem } from '../../src/foundation/problems/problems.js';
import type { TestApp, Tokens } from './test-app.js';

/** Expects the whole problem document (RFC 9457) of this entry of the catalogue. */
export function expectProblem(response: Response, problem: Problem): void {
  expect({ status: response.status, code: (response.body as { code?: string }).code }).toEqual({
    status: problem.status,
    code: problem.code,
  });
  expect(response.headers['content-type']).toMatch(/^application\/problem\+json/);
  expect(response.body).toMatchObject({
    type: toProblemType(problem),
    title: problem.title,
    detail: problem.detail,
    instance: expect.any(String) as string,
    request_id: response.headers['x-request-id'],
    ...problem.extension,
  });
  expect(response.headers['www-authenticate']).toBe(problem.challenge);
  expect(response.headers['retry-after']).toBe(problem.retryAfterSeconds?.toString());
}

/** Expects that neither token of a session is accepted. */
export async function expectEnded({ access_token, refresh_token }: Tokens, app: TestApp, other = app): Promise<void> {
  expectProblem(await app.me(access_token), problems.invalidAccessToken);
  expectProblem(await other.refresh(refresh_token), problems.invalidRefreshToken);
}

/** Expects a 400 that points at this field. */
export function expectInvalid(response: Response, pointer: string): void {
  expect(response.status).toBe(400);
  const { code, errors } = response.body as { code: string; errors: { pointer: string }[] };
  expect(code).toBe('validation_failed');
  expect(errors.map((error) => error.pointer)).toContain(pointer);
}
