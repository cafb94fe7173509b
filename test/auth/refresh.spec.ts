import { problems } from '../../src/common/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import { TestApp, TestClock, type Tokens } from '../support/test-app.js';

const PREFIX = 'pa_rt_';

describe('POST /api/v0/auth/refresh', () => {
  const clock = new TestClock();
  let app: TestApp;
  let replica: TestApp;

  beforeAll(async () => {
    app = await TestApp.start({ clock });
    replica = await TestApp.start({ clock, database: app.database });
  });

  afterAll(async () => {
    await replica.stop();
    await app.stop();
  });

  const tokensOf = async (): Promise<Tokens> => (await app.user()).logsIn();
  const rotated = async (token: string): Promise<Tokens> => (await app.refresh(token).expect(200)).body as Tokens;

  it('exchanges the token for a new pair that works', async () => {
    const old = await tokensOf();
    const pair = await rotated(old.refresh_token);
    expect(pair).toEqual({
      access_token: expect.any(String),
      refresh_token: expect.any(String),
      token_type: 'Bearer',
      expires_in: 900,
    });
    expect(pair.refresh_token).not.toBe(old.refresh_token);
    await app.me(pair.access_token).expect(200);
  });

  it('returns the same successor when the answer was lost, from any replica', async () => {
    const old = await tokensOf();
    const { refresh_token } = await rotated(old.refresh_token);
    const again = await replica.refresh(old.refresh_token).expect(200);
    expect(again.body).toMatchObject({ refresh_token });
    await app.refresh(refresh_token).expect(200);
  });

  it('returns the same successor after a restart', async () => {
    const old = await tokensOf();
    const { refresh_token } = await rotated(old.refresh_token);
    const restarted = await TestApp.start({ clock, database: app.database });
    expect((await restarted.refresh(old.refresh_token).expect(200)).body).toMatchObject({ refresh_token });
    await restarted.stop();
  });

  it('revokes the session when a rotated token comes back after the grace', async () => {
    const old = await tokensOf();
    const pair = await rotated(old.refresh_token);
    clock.advance({ seconds: 11 });
    expectProblem(await replica.refresh(old.refresh_token), problems.invalidRefreshToken);
    expectProblem(await app.refresh(pair.refresh_token), problems.invalidRefreshToken);
    expectProblem(await app.me(pair.access_token), problems.invalidAccessToken);
  });

  it('revokes the session when a grandparent comes back within the grace', async () => {
    const first = await tokensOf();
    const second = await rotated(first.refresh_token);
    const third = await rotated(second.refresh_token);
    expectProblem(await app.refresh(first.refresh_token), problems.invalidRefreshToken);
    expectProblem(await replica.refresh(third.refresh_token), problems.invalidRefreshToken);
    expect(app.log.events('session.refresh.reused').length).toBeGreaterThan(0);
  });

  it('revokes nothing for a forgery with a known session id', async () => {
    const first = await tokensOf();
    const { refresh_token } = await rotated(first.refresh_token);
    const bytes = Buffer.from(first.refresh_token.slice(PREFIX.length), 'base64url');
    // Session id and generation stay; then the seed, the HMAC, and both are made up.
    for (const [from, to] of [
      [20, 52],
      [52, 84],
      [20, 84],
    ] as const) {
      const forged = Buffer.from(bytes).fill(0x5a, from, to);
      expectProblem(await app.refresh(PREFIX + forged.toString('base64url')), problems.invalidRefreshToken);
    }
    const future = Buffer.from(bytes);
    future.writeUInt32BE(7, 16);
    expectProblem(await app.refresh(PREFIX + future.toString('base64url')), problems.invalidRefreshToken);
    await app.refresh(refresh_token).expect(200);
  });

  it.each(['x', PREFIX, `${PREFIX}${'A'.repeat(112)}`, `${PREFIX}${'_'.repeat(112)}`, 'eyJhbGciOiJIUzI1NiJ9.e30.x'])(
    'refuses %p',
    async (token) => {
      expectProblem(await app.refresh(token), problems.invalidRefreshToken);
    },
  );

  it('slides the life of the token, and never past the absolute life of the session', async () => {
    let token = (await tokensOf()).refresh_token;
    for (let day = 0; day < 84; day += 12) {
      clock.advance({ days: 12 });
      token = (await rotated(token)).refresh_token;
    }
    clock.advance({ days: 7 });
    expectProblem(await app.refresh(token), problems.invalidRefreshToken);
  });

  it('refuses a token that was not used for REFRESH_TOKEN_EXPIRE_DAYS', async () => {
    const { refresh_token } = await tokensOf();
    clock.advance({ days: 14, seconds: 1 });
    expectProblem(await app.refresh(refresh_token), problems.invalidRefreshToken);
  });

  it('refuses the tokens of a user who was disabled or deleted', async () => {
    const [alice, bob] = [await app.user(), await app.user()];
    const [hers, his] = [await alice.logsIn(), await bob.logsIn()];
    await app.admin.patch(`/users/${alice.id}`, { is_active: false }).expect(200);
    await app.admin.delete(`/users/${bob.id}`).expect(204);
    expectProblem(await replica.refresh(hers.refresh_token), problems.invalidRefreshToken);
    expectProblem(await replica.refresh(his.refresh_token), problems.invalidRefreshToken);
    await app.admin.patch(`/users/${alice.id}`, { is_active: true }).expect(200);
    expectProblem(await replica.refresh(hers.refresh_token), problems.invalidRefreshToken);
  });

  it('goes on after SECRET_KEY was changed', async () => {
    const { access_token, refresh_token } = await tokensOf();
    const SECRET_KEY = 'another-signing-key-0Q9w8E7r6T5y4U3i2O1p';
    const rekeyed = await TestApp.start({ clock, database: app.database, variables: { SECRET_KEY } });
    expectProblem(await rekeyed.me(access_token), problems.invalidAccessToken);
    const next = (await rekeyed.refresh(refresh_token).expect(200)).body as Tokens;
    await rekeyed.refresh(next.refresh_token).expect(200);
    await rekeyed.stop();
  });
});
