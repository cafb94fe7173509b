import { randomBytes, randomUUID } from 'node:crypto';
import { problems } from '../../src/problems/problems.js';
import { expectInvalid, expectProblem } from '../support/expect-problem.js';
import type { Tokens } from '../support/test-app.js';
import { useApp } from '../support/use-app.js';

const app = useApp();

const PREFIX = 'pa_rt_';
// Offsets of the parts of a token: session id, generation, seed, HMAC (src/tokens/refresh-tokens.ts).
const GENERATION = 16;
const SEED = 20;
const HMAC = 52;
const END = 84;

const bytesOf = (token: string): Buffer => Buffer.from(token.slice(PREFIX.length), 'base64url');
const tokenOf = (bytes: Buffer): string => PREFIX + bytes.toString('base64url');

function withNoise(token: string, from: number, to: number): string {
  const bytes = bytesOf(token);
  bytes.set(randomBytes(to - from), from);
  return tokenOf(bytes);
}

function withId(token: string, id: string): string {
  const bytes = bytesOf(token);
  bytes.set(Buffer.from(id.replaceAll('-', ''), 'hex'), 0);
  return tokenOf(bytes);
}

function withGeneration(token: string, generation: number): string {
  const bytes = bytesOf(token);
  bytes.writeUInt32BE(generation, GENERATION);
  return tokenOf(bytes);
}

describe('a forged refresh token with a known session id', () => {
  const { clock } = app;
  let parent: Tokens;
  let current: Tokens;

  beforeEach(async () => {
    parent = await (await app.user()).logsIn();
    current = (await app.refresh(parent.refresh_token).expect(200)).body as Tokens;
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
      clock.advance({ seconds: 60 });
      expectProblem(await app.refresh(forged), problems.invalidRefreshToken);
      await app.logout(forged).expect(204);
      await app.me(current.access_token).expect(200);
      await app.refresh(current.refresh_token).expect(200);
    },
  );

  it('does not end the session when any single bit of a rotated token is flipped', async () => {
    clock.advance({ seconds: 60 });
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
