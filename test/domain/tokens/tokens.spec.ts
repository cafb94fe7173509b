import { createHmac, randomBytes, randomUUID, sign } from 'node:crypto';
import { problems } from '../../../src/foundation/problems/problems.js';
import { readClaims } from '../../../tools/read-claims.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { generateRsaKey } from '../../support/rsa-key.js';
import { SECRET_KEY, UNLEASED } from '../../support/settings.js';
import type { Tokens, User } from '../../support/test-app.js';
import { useApp } from '../../support/use-app.js';

const app = useApp({ variables: UNLEASED });
const { clock } = app;
// The bounds of claims and of the grace are seconds.
clock.stop();

const HS256 = { alg: 'HS256', typ: 'JWT' };
const encode = (part: unknown): string => Buffer.from(JSON.stringify(part)).toString('base64url');

function forge(header: object, claims: unknown, { hash = 'sha256', key = SECRET_KEY } = {}): string {
  const input = `${encode(header)}.${encode(claims)}`;
  return `${input}.${createHmac(hash, key).update(input).digest('base64url')}`;
}

describe('an access token', () => {
  let alice: User;
  let tokens: Tokens;
  let claims: Record<string, unknown>;

  beforeAll(async () => {
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

  /** A time claim the given seconds from now. */
  const secondsFromNow = (seconds: number): number => Math.floor(clock.now().getTime() / 1_000) + seconds;

  it('is accepted from a replica whose clock is up to a minute ahead, which needs SECRET_KEY alone', async () => {
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

  it('has no verdict (503) after the clocks of PostgreSQL and the replicas were set back to before it was issued', async () => {
    const { access_token } = await alice.logsIn();
    clock.advance({ days: -1 });
    expectProblem(await app.me(access_token), problems.unavailable);
    const authorization = `Bearer ${access_token}`;
    for (const path of ['/internal/validate-user', '/api/v0/auth/logout'])
      expectProblem(await app.post(path).set('Authorization', authorization), problems.unavailable);
    clock.advance({ days: 1 });
    await app.me(access_token).expect(200);
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

const PREFIX = 'pa_rt_';
// Offsets of the parts of a refresh token: session id, generation, seed, HMAC (src/domain/tokens/refresh-tokens.ts).
const GENERATION = 16;
const SEED = 20;
const HMAC = 52;
const END = 84;

const bytesOf = (token: string): Buffer => Buffer.from(token.slice(PREFIX.length), 'base64url');
const tokenOf = (bytes: Buffer): string => PREFIX + bytes.toString('base64url');

function change(token: string, edit: (bytes: Buffer) => unknown): string {
  const bytes = bytesOf(token);
  edit(bytes);
  return tokenOf(bytes);
}

const withNoise = (token: string, from: number, to: number): string =>
  change(token, (bytes) => bytes.set(randomBytes(to - from), from));
const withId = (token: string, id: string): string =>
  change(token, (bytes) => bytes.set(Buffer.from(id.replaceAll('-', ''), 'hex'), 0));
const withGeneration = (token: string, generation: number): string =>
  change(token, (bytes) => bytes.writeUInt32BE(generation, GENERATION));

describe('a forged refresh token with a known session id', () => {
  let parent: Tokens;
  let current: Tokens;

  beforeEach(async () => {
    parent = await (await app.user()).logsIn();
    current = await app.rotate(parent.refresh_token);
    expect(bytesOf(current.refresh_token)).toHaveLength(END);
  });

  const forgeries: [string, () => string][] = [
    ['another seed', () => withNoise(parent.refresh_token, SEED, HMAC)],
    ['another HMAC', () => withNoise(parent.refresh_token, HMAC, END)],
    ['another seed and HMAC', () => withNoise(parent.refresh_token, SEED, END)],
    ['another HMAC of the current generation', () => withNoise(current.refresh_token, HMAC, END)],
    ['the generation after the current one', () => withGeneration(current.refresh_token, 2)],
    ['a generation far ahead', () => withGeneration(current.refresh_token, 2 ** 31 - 2)],
    ['a generation beyond what a row can hold', () => withGeneration(current.refresh_token, 2 ** 32 - 1)],
    ['the current generation under the HMAC of its parent', () => withGeneration(parent.refresh_token, 1)],
    ['the id of no session', () => withId(parent.refresh_token, randomUUID())],
    ['a session id that is not a UUID', () => withId(parent.refresh_token, 'f0'.repeat(16))],
  ];

  it.each(forgeries)(
    'ends no session, by a refresh within the grace or after it, nor by a logout: %s',
    async (_name, forge) => {
      const forged = forge();
      expectProblem(await app.refresh(forged), problems.invalidRefreshToken);
      clock.advance({ seconds: 61 });
      expectProblem(await app.refresh(forged), problems.invalidRefreshToken);
      await app.logout(forged).expect(204);
      await app.me(current.access_token).expect(200);
      await app.refresh(current.refresh_token).expect(200);
    },
  );

  it('does not end the session when any single bit of a rotated token is flipped', async () => {
    clock.advance({ seconds: 61 });
    const bytes = bytesOf(parent.refresh_token);
    for (let byte = 0; byte < END; byte++) {
      const turned = Buffer.from(bytes);
      turned[byte]! ^= 1 << (byte % 8);
      expectProblem(await app.refresh(tokenOf(turned)), problems.invalidRefreshToken);
    }
    await app.refresh(current.refresh_token).expect(200);
  });

  it('is refused when its parts are of two sessions', async () => {
    const [mine, other] = [current, await (await app.user()).logsIn()];
    const crossed = bytesOf(other.refresh_token);
    crossed.set(bytesOf(mine.refresh_token).subarray(0, SEED), 0);
    expectProblem(await app.refresh(tokenOf(crossed)), problems.invalidRefreshToken);
    await app.refresh(mine.refresh_token).expect(200);
    await app.refresh(other.refresh_token).expect(200);
  });
});

describe('a malformed refresh token', () => {
  it.each([
    'x',
    PREFIX,
    `${PREFIX}${'A'.repeat(112)}`,
    `${PREFIX}${'_'.repeat(112)}`,
    `${PREFIX}${'8'.repeat(112)}`,
    `${PREFIX}${'A'.repeat(111)}`,
    `${PREFIX}${'A'.repeat(113)}`,
    `${PREFIX.toUpperCase()}${'A'.repeat(112)}`,
    'eyJhbGciOiJIUzI1NiJ9.e30.x',
    "' OR 1=1 --",
    'a\0b',
    'x'.repeat(512),
  ])('is answered with 401 by refresh and with 204 by logout: %p', async (token) => {
    expectProblem(await app.refresh(token), problems.invalidRefreshToken);
    await app.logout(token).expect(204);
  });

  it.each([undefined, null, '', 7, true, ['x'], {}, 'x'.repeat(513)])(
    'of the wrong type or length is answered with 400: %p',
    async (token) => {
      expectInvalid(await app.post('/api/v0/auth/refresh', { refresh_token: token }), '/refresh_token');
    },
  );

  it('is an access token, or a valid token with characters around it', async () => {
    const { access_token, refresh_token } = await (await app.user()).logsIn();
    for (const token of [access_token, `${refresh_token} `, ` ${refresh_token}`, `${refresh_token}=`]) {
      expectProblem(await app.refresh(token), problems.invalidRefreshToken);
    }
    expectInvalid(await app.post('/api/v0/auth/refresh', { refresh_token, access_token }), '/access_token');
    await app.refresh(refresh_token).expect(200);
  });
});
