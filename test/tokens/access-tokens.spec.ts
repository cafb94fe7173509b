import { createHmac, randomUUID, sign } from 'node:crypto';
import { problems } from '../../src/problems/problems.js';
import { readClaims } from '../../tools/read-claims.js';
import { expectProblem } from '../support/expect-problem.js';
import { generateRsaKey } from '../support/rsa-key.js';
import { SECRET_KEY } from '../support/settings.js';
import type { Tokens, User } from '../support/test-app.js';
import { useApp } from '../support/use-app.js';

const HS256 = { alg: 'HS256', typ: 'JWT' };
const encode = (part: unknown): string => Buffer.from(JSON.stringify(part)).toString('base64url');

function forge(header: object, claims: unknown, { hash = 'sha256', key = SECRET_KEY } = {}): string {
  const input = `${encode(header)}.${encode(claims)}`;
  return `${input}.${createHmac(hash, key).update(input).digest('base64url')}`;
}

describe('an access token', () => {
  const app = useApp();
  const { clock } = app;
  let alice: User;
  let tokens: Tokens;
  let claims: Record<string, unknown>;

  beforeAll(async () => {
    // The bounds of the claims are seconds.
    clock.stop();
    alice = await app.user();
    tokens = await alice.logsIn();
    claims = readClaims(tokens.access_token);
  });

  it('is an HS256 JWT with exactly the promised claims', () => {
    const header = JSON.parse(Buffer.from(tokens.access_token.split('.')[0]!, 'base64url').toString()) as unknown;
    expect(header).toEqual(HS256);
    const id = expect.any(String) as unknown;
    const time = expect.any(Number) as unknown;
    expect(claims).toEqual({
      iss: 'platform-auth',
      sub: alice.id,
      sid: id,
      jti: id,
      iat: time,
      exp: time,
      email: alice.email,
      amr: ['pwd'],
    });
    expect((claims.exp as number) - (claims.iat as number)).toBe(15 * 60);
  });

  it.each([' x', ' , x', ','])('is refused with "%s" behind it', async (rest) => {
    expectProblem(await app.me(`${tokens.access_token}${rest}`), problems.invalidAccessToken);
  });

  it.each([
    ['in front', (token: string) => `\u00a0${token}`],
    ['behind', (token: string) => `${token}\u00a0`],
  ])('is refused with a no-break space %s, at the door and at the logout', async (_where, pad) => {
    const padded = pad(tokens.access_token);
    expectProblem(await app.me(padded), problems.invalidAccessToken);
    const logout = app.post('/api/v0/auth/logout').set('Authorization', `Bearer ${padded}`);
    expectProblem(await logout, problems.invalidAccessToken);
    expectProblem(
      await app.get('/api/v0/users/me').set('Authorization', `Bearer\u00a0${tokens.access_token}`),
      problems.missingAccessToken,
    );
    await app.me(` \t${tokens.access_token}`).expect(200);
  });

  it('can be verified by any service that has SECRET_KEY', async () => {
    await app.me(forge(HS256, claims)).expect(200);
  });

  /** A time claim the given seconds from now. */
  const secondsFromNow = (seconds: number): number => Math.floor(clock.now().getTime() / 1_000) + seconds;

  it('is accepted from a replica whose clock is up to a minute ahead', async () => {
    await app.me(forge(HS256, { ...claims, iat: secondsFromNow(55), exp: secondsFromNow(15 * 60 + 55) })).expect(200);
  });

  it('cannot log out when its lifetime is longer than configured', async () => {
    const { access_token } = await alice.logsIn();
    const bearer = `Bearer ${forge(HS256, { ...readClaims(access_token), exp: secondsFromNow(86_400) })}`;
    const answer = await app.post('/api/v0/auth/logout').set('Authorization', bearer);
    expectProblem(answer, problems.invalidAccessToken);
    await app.me(access_token).expect(200);
  });

  it.each([
    ['no algorithm', () => `${encode({ alg: 'none', typ: 'JWT' })}.${encode(claims)}.`],
    ['HS384', () => forge({ ...HS256, alg: 'HS384' }, claims, { hash: 'sha384' })],
    ['HS512', () => forge({ ...HS256, alg: 'HS512' }, claims, { hash: 'sha512' })],
    [
      'RS256',
      () => {
        const input = `${encode({ ...HS256, alg: 'RS256' })}.${encode(claims)}`;
        return `${input}.${sign('sha256', Buffer.from(input), generateRsaKey(2048)).toString('base64url')}`;
      },
    ],
    ['a jwk header', () => forge({ ...HS256, jwk: { kty: 'oct', k: 'AAAA' } }, claims)],
    ['a jku header', () => forge({ ...HS256, jku: 'https://example.org/keys' }, claims)],
    ['a kid header', () => forge({ ...HS256, kid: '../../dev/null' }, claims)],
    ['a crit header', () => forge({ ...HS256, crit: ['exp'] }, claims)],
    ['no exp', () => forge(HS256, { ...claims, exp: undefined })],
    ['an exp that is text', () => forge(HS256, { ...claims, exp: '9999999999' })],
    ['an exp beyond all dates', () => forge(HS256, { ...claims, exp: 1e300 })],
    [
      'an exp beyond the configured life and a minute',
      () => forge(HS256, { ...claims, exp: secondsFromNow(15 * 60 + 65) }),
    ],
    ['an exp of next year', () => forge(HS256, { ...claims, exp: secondsFromNow(365 * 86_400) })],
    ['an iat that is more than a minute ahead', () => forge(HS256, { ...claims, iat: secondsFromNow(65) })],
    ['an iat that is text', () => forge(HS256, { ...claims, iat: 'now' })],
    ['an unexpected audience', () => forge(HS256, { ...claims, aud: 'x' })],
    ...[null, 7, 'text', []].map((payload): [string, () => string] => [
      `a payload that is ${JSON.stringify(payload)}`,
      () => forge(HS256, payload),
    ]),
    ['no sid', () => forge(HS256, { ...claims, sid: undefined })],
    ['another issuer', () => forge(HS256, { ...claims, iss: 'another-issuer' })],
    ['another key', () => forge(HS256, claims, { key: 'x'.repeat(40) })],
    ['an unknown session', () => forge(HS256, { ...claims, sid: randomUUID() })],
    ["another user's session", () => forge(HS256, { ...claims, sub: randomUUID() })],
    ['a session id that is not a UUID', () => forge(HS256, { ...claims, sid: 'x' })],
    [
      'a changed claim',
      () => tokens.access_token.replace(/\.[^.]+\./, `.${encode({ ...claims, email: 'eve@example.org' })}.`),
    ],
    ['a refresh token in its place', () => tokens.refresh_token],
    ['nonsense', () => 'abc'],
  ] satisfies [string, () => string][])('is refused with %s', async (_name, make) => {
    expectProblem(await app.me(make()), problems.invalidAccessToken);
  });

  it('is requested by a challenge without an error when none was sent', async () => {
    expectProblem(await app.get('/api/v0/users/me'), problems.missingAccessToken);
    expectProblem(await app.get('/api/v0/users/me').set('Authorization', 'Basic YTpi'), problems.missingAccessToken);
  });

  it('expires after ACCESS_TOKEN_EXPIRE_MINUTES', async () => {
    const { access_token } = await alice.logsIn();
    clock.advance({ minutes: 14, seconds: 45 });
    await app.me(access_token).expect(200);
    clock.advance({ seconds: 16 });
    expectProblem(await app.me(access_token), problems.invalidAccessToken);
  });

  it('has an audience only when one is configured, which is then required', async () => {
    const strict = await app.startReplica({ variables: { JWT_AUDIENCE: 'platform' } });
    const mine = await alice.logsIn(strict);
    expect(readClaims(mine.access_token)).toMatchObject({ aud: 'platform' });
    await strict.me(mine.access_token).expect(200);
    expectProblem(await strict.me((await alice.logsIn()).access_token), problems.invalidAccessToken);
    await strict.stop();
  });
});
