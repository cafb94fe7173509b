import { findKeys } from '../../src/crypto/key-format.js';
import { computeDigest, computeMac, deriveKey } from '../../src/crypto/secret.js';
import { problems } from '../../src/problems/problems.js';
import { atOnce, ROUNDS } from '../support/at-once.js';
import { expectEnded, expectProblem } from '../support/expect-problem.js';
import { SECRET_KEY } from '../support/settings.js';
import type { Tokens } from '../support/test-app.js';
import { useApp, useReplica } from '../support/use-app.js';
import { recorded } from '../audit/record.js';

const app = useApp();
const replica = useReplica(app);
// A machine that stalls would cross the bounds of seconds by itself.
app.clock.stop();

describe('POST /api/v0/auth/refresh', () => {
  const { clock } = app;

  const tokensOf = async (): Promise<Tokens> => (await app.user()).logsIn();
  const rotated = (token: string): Promise<Tokens> => app.rotate(token);

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

  describe('with a token from before there were checksums', () => {
    /** The token in the form that replicas of that version issue. */
    const toOldForm = (token: string, generation = 0): string => {
      const body = Buffer.from(token.slice('pa_rt_'.length), 'base64url').subarray(0, 52);
      body.writeUInt32BE(generation, 16);
      const mac = computeMac(deriveKey(SECRET_KEY, 'platform-auth refresh token v1'), body);
      return `pa_rt_${Buffer.concat([body, mac]).toString('base64url')}`;
    };
    const store = (user: string, token: string, generation: number) =>
      app.database.query(`UPDATE sessions SET token_digest = $2, generation = $3, rotated_at = $4 WHERE user_id = $1`, [
        user,
        computeDigest(token),
        generation,
        clock.now(),
      ]);

    it('rotates it, repeats the answer within the grace, and ends the session when it is replayed later', async () => {
      const user = await app.user();
      const old = toOldForm((await user.logsIn()).refresh_token);
      await store(user.id, old, 0);
      const successor = (await rotated(old)).refresh_token;
      expect(findKeys(successor)).toEqual([{ kind: 'rt', key: successor }]);
      expect((await rotated(old)).refresh_token).toBe(successor);
      clock.advance({ seconds: 61 });
      expectProblem(await app.refresh(old), problems.invalidRefreshToken);
      expectProblem(await app.refresh(successor), problems.invalidRefreshToken);
    });

    it('repeats the answer of a replica of that version', async () => {
      const user = await app.user();
      const { refresh_token } = await user.logsIn();
      const successor = toOldForm(refresh_token, 1);
      await store(user.id, successor, 1);
      expect((await rotated(refresh_token)).refresh_token).toBe(successor);
      await rotated(successor);
    });
  });

  it.each(['another replica', 'a replica that started since'])(
    'commits the end of that session alone before it refuses a rotated token after the grace, at %s',
    async (which) => {
      const user = await app.user();
      const [old, other] = [await user.logsIn(), await user.logsIn()];
      const pair = await rotated(old.refresh_token);
      clock.advance({ seconds: 61 });
      const asked = which === 'another replica' ? replica : await app.startReplica();
      expectProblem(await asked.refresh(old.refresh_token), problems.invalidRefreshToken);
      const sql = 'SELECT end_reason, ended_at FROM sessions WHERE user_id = $1 ORDER BY created_at, id';
      const ended = { end_reason: 'reuse', ended_at: expect.any(Date) };
      expect(await app.database.query(sql, [user.id])).toEqual([ended, { end_reason: null, ended_at: null }]);
      await expectEnded(pair, app);
      expectProblem(await app.me(old.access_token), problems.invalidAccessToken);
      await rotated(other.refresh_token);
      if (asked !== replica) await asked.stop();
    },
  );

  it('revokes the session when a token two generations old is replayed within the grace', async () => {
    const first = await tokensOf();
    const second = await rotated(first.refresh_token);
    const third = await rotated(second.refresh_token);
    expectProblem(await app.refresh(first.refresh_token), problems.invalidRefreshToken);
    expectProblem(await replica.refresh(third.refresh_token), problems.invalidRefreshToken);
  });

  it('refuses the tokens of a disabled or deleted user', async () => {
    const [alice, bob] = [await app.user(), await app.user()];
    const [hers, his] = [await alice.logsIn(), await bob.logsIn()];
    await app.admin.patch(`/users/${alice.id}`, { is_active: false }).expect(200);
    await app.admin.delete(`/users/${bob.id}`).expect(204);
    expectProblem(await replica.refresh(hers.refresh_token), problems.invalidRefreshToken);
    expectProblem(await replica.refresh(his.refresh_token), problems.invalidRefreshToken);
    await app.admin.patch(`/users/${alice.id}`, { is_active: true }).expect(200);
    expectProblem(await replica.refresh(hers.refresh_token), problems.invalidRefreshToken);
  });

  it('still works after SECRET_KEY was changed', async () => {
    const { access_token, refresh_token } = await tokensOf();
    const SECRET_KEY = 'another-signing-key-0Q9w8E7r6T5y4U3i2O1p';
    const rekeyed = await app.startReplica({ variables: { SECRET_KEY } });
    expectProblem(await rekeyed.me(access_token), problems.invalidAccessToken);
    await rekeyed.rotate((await rekeyed.rotate(refresh_token)).refresh_token);
    await rekeyed.stop();
  });
});

describe('a refresh whose response was lost', () => {
  const { clock } = app;

  const tokensOf = async (): Promise<Tokens> => (await app.user()).logsIn();
  const answerOf = (token: string, from = app): Promise<Tokens> => from.rotate(token);

  it('returns the same successor, idempotently, from any replica, also after a restart', async () => {
    const old = await tokensOf();
    const { refresh_token } = await answerOf(old.refresh_token);
    const restarted = await app.startReplica();
    for (const each of [replica, app, restarted]) {
      const again = await answerOf(old.refresh_token, each);
      expect(again.refresh_token).toBe(refresh_token);
      await app.me(again.access_token).expect(200);
    }
    await restarted.stop();
    await app.refresh(refresh_token).expect(200);
  });

  it('returns the successor until the grace has passed, and then ends the session', async () => {
    const old = await tokensOf();
    const { refresh_token } = await answerOf(old.refresh_token);
    clock.advance({ seconds: 30 });
    expect((await answerOf(old.refresh_token)).refresh_token).toBe(refresh_token);
    // The repeated response did not restart the grace.
    clock.advance({ seconds: 31 });
    expectProblem(await replica.refresh(old.refresh_token), problems.invalidRefreshToken);
    expectProblem(await app.refresh(refresh_token), problems.invalidRefreshToken);
  });

  it('ends the session when the successor was already used', async () => {
    const old = await tokensOf();
    const { refresh_token: second } = await answerOf(old.refresh_token);
    const { refresh_token: third } = await answerOf(second);
    expectProblem(await replica.refresh(old.refresh_token), problems.invalidRefreshToken);
    for (const token of [third, second, old.refresh_token]) {
      expectProblem(await app.refresh(token), problems.invalidRefreshToken);
    }
  });

  it('may be repeated at every rotation of a session', async () => {
    let { refresh_token } = await tokensOf();
    for (let generation = 0; generation < 5; generation++) {
      const successor = (await answerOf(refresh_token)).refresh_token;
      expect((await answerOf(refresh_token, replica)).refresh_token).toBe(successor);
      refresh_token = successor;
    }
  });

  it('does not change the stored session when it is repeated', async () => {
    const user = await app.user();
    const { refresh_token } = await user.logsIn();
    const row = () => app.database.query('SELECT * FROM sessions WHERE user_id = $1', [user.id]);
    await answerOf(refresh_token);
    const rotated = await row();
    clock.advance({ seconds: 30 });
    await answerOf(refresh_token, replica);
    expect(await row()).toEqual(rotated);
  });

  it('is refused when the session has ended', async () => {
    const old = await tokensOf();
    const { refresh_token } = await answerOf(old.refresh_token);
    await app.logout(refresh_token).expect(204);
    expectProblem(await app.refresh(old.refresh_token), problems.invalidRefreshToken);
  });

  it('takes its grace from REFRESH_GRACE_SECONDS', async () => {
    const none = await app.startReplica({ variables: { REFRESH_GRACE_SECONDS: '0' } });
    const minutes = await app.startReplica({ variables: { REFRESH_GRACE_SECONDS: '300' } });
    const old = await tokensOf();
    const { refresh_token } = await answerOf(old.refresh_token);
    clock.advance({ minutes: 2 });
    expect((await answerOf(old.refresh_token, minutes)).refresh_token).toBe(refresh_token);
    expectProblem(await none.refresh(old.refresh_token), problems.invalidRefreshToken);
    expectProblem(await minutes.refresh(refresh_token), problems.invalidRefreshToken);
    for (const each of [none, minutes]) await each.stop();
  });
});

describe('the lifetime of a session', () => {
  const { clock } = app;

  const tokensOf = async (): Promise<Tokens> => (await app.user()).logsIn();
  const rotated = (token: string): Promise<Tokens> => app.rotate(token);

  /** Uses a session every twelve days. */
  const keptAliveFor = async (days: number, tokens: Tokens): Promise<Tokens> => {
    let kept = tokens;
    for (let day = 0; day < days; day += 12) {
      clock.advance({ days: 12 });
      kept = await rotated(kept.refresh_token);
    }
    return kept;
  };

  it('ends REFRESH_TOKEN_EXPIRE_DAYS after the last use', async () => {
    const [used, unused] = [await tokensOf(), await tokensOf()];
    clock.advance({ days: 13, minutes: 23 * 60 });
    const next = await rotated(used.refresh_token);
    clock.advance({ minutes: 61 });
    expectProblem(await app.refresh(unused.refresh_token), problems.invalidRefreshToken);
    clock.advance({ days: 13 });
    await rotated(next.refresh_token);
  });

  it('ends after SESSION_MAX_AGE_DAYS, also when the session is used', async () => {
    const kept = await keptAliveFor(84, await tokensOf());
    clock.advance({ days: 5, minutes: 23 * 60 });
    const last = await rotated(kept.refresh_token);
    clock.advance({ minutes: 61 });
    expectProblem(await app.refresh(last.refresh_token), problems.invalidRefreshToken);
  });

  it('bounds its last access token', async () => {
    const kept = await keptAliveFor(84, await tokensOf());
    clock.advance({ days: 5, minutes: 24 * 60 - 5 });
    const last = await rotated(kept.refresh_token);
    await app.me(last.access_token).expect(200);
    clock.advance({ minutes: 6 });
    expectProblem(await app.me(last.access_token), problems.invalidAccessToken);
  });

  it('is not extended by a repeated refresh', async () => {
    const kept = await keptAliveFor(84, await tokensOf());
    clock.advance({ days: 5, minutes: 24 * 60 - 1, seconds: 55 });
    const last = await rotated(kept.refresh_token);
    expect((await rotated(kept.refresh_token)).refresh_token).toBe(last.refresh_token);
    clock.advance({ seconds: 6 });
    expectProblem(await app.refresh(kept.refresh_token), problems.invalidRefreshToken);
    expectProblem(await app.refresh(last.refresh_token), problems.invalidRefreshToken);
  });

  it('is SESSION_MAX_AGE_DAYS when that is less than REFRESH_TOKEN_EXPIRE_DAYS', async () => {
    const short = await app.startReplica({ variables: { SESSION_MAX_AGE_DAYS: '1' } });
    const tokens = await (await short.user()).logsIn();
    clock.advance({ days: 1, seconds: 1 });
    expectProblem(await short.refresh(tokens.refresh_token), problems.invalidRefreshToken);
    await short.stop();
  });

  it('is shown to the operator', async () => {
    const user = await app.user();
    await user.logsIn();
    const { body } = await app.admin.get(`/users/${user.id}/sessions`).expect(200);
    const [session] = (body as { items: Record<string, string>[] }).items;
    const day = 24 * 60 * 60 * 1_000;
    const since = (field: string) => Date.parse(session![field]!) - Date.parse(session!.created_at!);
    expect({ sliding: since('expires_at') / day, absolute: since('absolute_expires_at') / day }).toEqual({
      sliding: 14,
      absolute: 90,
    });
  });
});

describe('concurrent refreshes', () => {
  const { clock } = app;
  const replicas = [app, useReplica(app), useReplica(app)];

  const successorsOf = async (refreshToken: string, callers: number): Promise<Set<string>> => {
    const answers = await atOnce(callers, (i) => replicas[i % replicas.length]!.refresh(refreshToken));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    return new Set(answers.map(({ body }) => (body as Tokens).refresh_token));
  };

  it('return one successor to 100 parallel callers over three replicas', async () => {
    const alice = await app.user();
    const successors = await successorsOf((await alice.logsIn()).refresh_token, 100);
    expect(successors.size).toBe(1);
    const live = await app.database.query('SELECT generation FROM sessions WHERE user_id = $1 AND ended_at IS NULL', [
      alice.id,
    ]);
    expect(live).toEqual([{ generation: 1 }]);
    await app.refresh([...successors][0]!).expect(200);
  });

  it('return one successor to parallel callers at every rotation of a long session', async () => {
    const alice = await app.user();
    let { refresh_token } = await alice.logsIn();
    for (let round = 0; round < ROUNDS; round++) {
      const successors = await successorsOf(refresh_token, 6);
      expect(successors.size).toBe(1);
      refresh_token = [...successors][0]!;
    }
  });

  it('end the session, in either order, when an attacker and the owner use two generations', async () => {
    const other = replicas[1]!;
    const alice = await app.user();
    for (let round = 0; round < ROUNDS; round++) {
      const old = await alice.logsIn();
      const { refresh_token } = await app.rotate(old.refresh_token);
      clock.advance({ seconds: 61 });
      const [stolen, owned] = await Promise.all([other.refresh(old.refresh_token), app.refresh(refresh_token)]);
      expectProblem(stolen, problems.invalidRefreshToken);
      const handedOut = [refresh_token, (owned.body as Partial<Tokens>).refresh_token];
      expect([200, 401]).toContain(owned.status);
      for (const token of handedOut) {
        if (token) expectProblem(await other.refresh(token), problems.invalidRefreshToken);
      }
      expectProblem(await app.me(old.access_token), problems.invalidAccessToken);
    }
  });

  it('end the session once when 30 attackers replay a token', async () => {
    const alice = await app.user();
    const old = await alice.logsIn();
    await app.refresh(old.refresh_token).expect(200);
    clock.advance({ seconds: 61 });
    const answers = await atOnce(30, (i) => replicas[i % replicas.length]!.refresh(old.refresh_token));
    for (const answer of answers) expectProblem(answer, problems.invalidRefreshToken);
    const rows = await app.database.query('SELECT end_reason FROM sessions WHERE user_id = $1', [alice.id]);
    expect(rows).toEqual([{ end_reason: 'reuse' }]);
  });
});

const HOME = '192.0.2.7';

const AWAY = '198.51.100.9';

describe('a refresh that is repeated within the grace', () => {
  const variables = { TRUST_PROXY: 'true' };
  const app = useApp({ variables });
  const replica = useReplica(app);

  const refreshFrom = async (address: string, token: string, through = app): Promise<Tokens> =>
    (await through.refresh(token).set('X-Forwarded-For', address).expect(200)).body as Tokens;
  const EVENT = 'session.refresh.repeated_elsewhere';

  it('from another network returns the same successor, logs a warning and writes one audit row', async () => {
    const alice = await app.user();
    const { refresh_token } = await alice.logsIn();
    const first = await refreshFrom(HOME, refresh_token);
    const repeat = await refreshFrom(AWAY, refresh_token, replica);
    expect(repeat.refresh_token).toBe(first.refresh_token);
    expect(replica.log.lines).toContainEqual(
      expect.objectContaining({ event: EVENT, level: 'warn', address: AWAY, user_id: alice.id }),
    );
    await refreshFrom('203.0.113.4', refresh_token);
    expect(await recorded(app, { subject: alice.id, event: EVENT })).toMatchObject([
      { actor: { door: 'open', id: null }, address: AWAY, details: { rotated_from: HOME } },
    ]);
  });

  it('from another address of the same IPv6 /64 is neither logged nor audited', async () => {
    const alice = await app.user();
    const { refresh_token } = await alice.logsIn();
    await refreshFrom('2001:db8:1:2::7', refresh_token);
    await refreshFrom('2001:db8:1:2:ffff::8', refresh_token);
    expect(await recorded(app, { subject: alice.id, event: EVENT })).toEqual([]);
    expect(app.log.events(EVENT).filter(({ user_id }) => user_id === alice.id)).toEqual([]);
  });

  it('is audited again at the next rotation', async () => {
    const alice = await app.user();
    const { refresh_token } = await alice.logsIn();
    const second = (await refreshFrom(HOME, refresh_token)).refresh_token;
    await refreshFrom(AWAY, refresh_token);
    await refreshFrom(HOME, second);
    await refreshFrom(AWAY, second);
    expect(await recorded(app, { subject: alice.id, event: EVENT })).toHaveLength(2);
  });

  it('is not audited when an older version, which recorded no network, did the rotation', async () => {
    const alice = await app.user();
    const { refresh_token } = await alice.logsIn();
    await refreshFrom(HOME, refresh_token);
    await app.database.query('UPDATE sessions SET rotated_from = NULL WHERE user_id = $1', [alice.id]);
    await refreshFrom(AWAY, refresh_token);
    expect(await recorded(app, { subject: alice.id, event: EVENT })).toEqual([]);
  });
});
