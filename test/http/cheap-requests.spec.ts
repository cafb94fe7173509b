import type { Response } from 'supertest';
import { MAX_ERRORS } from '../../src/problems/problem.filter.js';
import { problems } from '../../src/problems/problems.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import { useApp } from '../support/use-app.js';

const LOGIN = '/api/v0/auth/login';
/** The largest response to an anonymous request, except the static documentation. */
const MAX_ANSWER_BYTES = 20 * 1_024;

/** `{"0":value,"1":value,…,"z":value,…}` */
function objectOf(names: number, value = '1'): string {
  return `{${Array.from({ length: names }, (_, i) => `"${i.toString(36)}":${value}`).join(',')}}`;
}

function errorsOf({ body }: Response): { pointer: string; detail: string }[] {
  return (body as { errors: { pointer: string; detail: string }[] }).errors;
}

describe('an anonymous request causes little work:', () => {
  const app = useApp();

  const send = (body: string, path = LOGIN) => app.post(path).set('Content-Type', 'application/json').send(body);

  it.each([
    ['11,000 unknown names', objectOf(11_000)],
    ['33 unknown names', objectOf(33)],
    ['11,000 names one level down', `{"email":${objectOf(11_000)}}`],
    ['names in many small objects', `{"email":${objectOf(9, objectOf(9))}}`],
    ['a list of 50,000 items', `{"email":[${'1,'.repeat(49_999)}1]}`],
    ['a list of 30,000 objects', `{"email":[${'{},'.repeat(29_999)}{}]}`],
  ])('a body with %s is refused before it is parsed, with one error', async (_what, body) => {
    for (const path of [LOGIN, '/api/v0/auth/register', '/internal/validate-app', '/health']) {
      const answer = await send(body, path);
      expectInvalid(answer, '');
      expect(errorsOf(answer)).toEqual([{ pointer: '', detail: 'has more than 32 names' }]);
      expect(answer.text.length).toBeLessThan(MAX_ANSWER_BYTES);
    }
  });

  it('names inside strings do not count', async () => {
    const body = JSON.stringify({ email: `${','.repeat(90)}"\\"[[[[{{{{`, password: '\\' });
    expectInvalid(await send(body), '/email');
  });

  it('a problem names at most 20 of the fields that it rejects', async () => {
    const answer = await send(objectOf(32));
    expectProblem(answer, problems.validationFailed);
    expect(errorsOf(answer)).toHaveLength(MAX_ERRORS);
    const ofQuery = await app.admin.get(`/nodes?${Array.from({ length: 32 }, (_, i) => `a${i}=1`).join('&')}`);
    expect(errorsOf(ofQuery)).toHaveLength(MAX_ERRORS);
  });

  it.each(['[]', '[1]', '{}', '{"a":[]}'].map((value) => [value]))(
    'a list is refused in any place: %s',
    async (value) => {
      const answer = await send(`{"email":${value === '{}' ? '[{}]' : value},"password":"x"}`);
      const pointer = value === '{"a":[]}' ? '/email/a' : '/email';
      expect(errorsOf(answer)).toEqual([{ pointer, detail: 'must not be a list' }]);
    },
  );

  it('a string longer than any field is refused before validation', async () => {
    expect(errorsOf(await send(JSON.stringify({ email: 'x'.repeat(8_193) })))).toEqual([
      { pointer: '/email', detail: 'must be text of at most 8192 characters' },
    ]);
  });

  it.each([
    ['5,000 short', 'a&'.repeat(5_000)],
    ['33 empty', '&'.repeat(33)],
    ['40 equal', 'limit=1&'.repeat(40)],
  ])('a query of %s parameters is refused on every kind of route', async (_what, parameters) => {
    const answers = [
      app.get(`/health/live?${parameters}`),
      app.get(`/docs?${parameters}`),
      app.admin.get(`/nodes?${parameters}`),
    ];
    for (const answer of await Promise.all(answers)) expectInvalid(answer, '');
  });

  it('a bearer of 16 KB is refused, with and without a space in it', async () => {
    const long = 'x'.repeat(15_000);
    const me = (authorization: string) => app.get('/api/v0/users/me').set('Authorization', authorization);
    expectProblem(await me(long), problems.missingAccessToken);
    expectProblem(await me(`Bearer ${long}`), problems.invalidAccessToken);
    expectProblem(await me(`Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJ${long}.x`), problems.invalidAccessToken);
  });
});
