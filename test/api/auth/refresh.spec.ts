import { problems } from '../../../src/foundation/problems/problems.js';
import { readClaims } from '../../../tools/read-claims.js';
import { atOnce, ROUNDS } from '../../support/at-once.js';
import { expectEnded, expectProblem } from '../../support/expect-problem.js';
import type { Tokens } from '../../support/test-app.js';
import { MASTER_KEY as FORMER_MASTER_KEY, UNLEASED } from '../../support/settings.js';
import { useApp, useReplica } from '../../support/use-app.js';
import { recorded } from '../../domain/audit/record.js';

const app = useApp({ variables: UNLEASED });
const replica = useReplica(app);
// A machine that stalls would cross the bounds of seconds by itself.
const { clock } = app;
clock.stop();

const tokensOf = async (): Promise<Tokens> => (await app.user()).logsIn();
const rotated = (token: string): Promise<Tokens> => app.rotate(token);

describe('POST /api/v0/auth/refresh', () => {
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

  it('still works after SECRET_KEY and MASTER_KEY were changed', async () => {
    const { access_token, refresh_token } = await tokensOf();
    const SECRET_KEY = 'another-signing-key-0Q9w8E7r6T5y4U3i2O1p';
    const rekeyed = await app.startReplica({ variables: { SECRET_KEY, MASTER_KEY: SECRET_KEY } });
    expectProblem(await rekeyed.me(access_token), problems.invalidAccessToken);
    await rekeyed.rotate((await rekeyed.rotate(refresh_token)).refresh_token);
    await rekeyed.stop();
  });
});

describe('a refresh whose response was lost', () => {
  it('returns the same successor, idempotently, from any replica, also after a restart', async () => {
    const old = await tokensOf();
    const { refresh_token } = await rotated(old.refresh_token);
    const restarted = await app.startReplica();
    for (const each of [replica, app, restarted]) {
      const again = await each.rotate(old.refresh_token);
      expect(again.refresh_token).toBe(refresh_token);
      await app.me(again.access_token).expect(200);
    }
    await restarted.stop();
    await app.refresh(refresh_token).expect(200);
  });

  it('returns the same successor from any replica while a rotation of MASTER_KEY has reached some of them', async () => {
    const MASTER_KEY = 'another-master-key-0Q9w8E7r6T5y4U3i2O1p';
    const first = await app.startReplica({ variables: { MASTER_KEY_PREVIOUS: MASTER_KEY } });
    const second = await app.startReplica({ variables: { MASTER_KEY, MASTER_KEY_PREVIOUS: FORMER_MASTER_KEY } });
    for (const [one, other] of [
      [first, second],
      [second, first],
    ] as const) {
      const old = await tokensOf();
      const child = (await one.rotate(old.refresh_token)).refresh_token;
      expect((await other.rotate(old.refresh_token)).refresh_token).toBe(child);
      const grandchild = (await other.rotate(child)).refresh_token;
      expect((await one.rotate(child)).refresh_token).toBe(grandchild);
      // A replay is recognised, and ends the session.
      expectProblem(await one.refresh(old.refresh_token), problems.invalidRefreshToken);
      expectProblem(await other.refresh(grandchild), problems.invalidRefreshToken);
    }
    for (const each of [first, second]) await each.stop();
  });

  it('returns the successor until the grace has passed, and then ends the session', async () => {
    const old = await tokensOf();
    const { refresh_token } = await rotated(old.refresh_token);
    clock.advance({ seconds: 30 });
    expect((await rotated(old.refresh_token)).refresh_token).toBe(refresh_token);
    // The repeated response did not restart the grace.
    clock.advance({ seconds: 31 });
    expectProblem(await replica.refresh(old.refresh_token), problems.invalidRefreshToken);
    expectProblem(await app.refresh(refresh_token), problems.invalidRefreshToken);
  });

  it('is reuse when the clocks of PostgreSQL and the replicas were set back since', async () => {
    const old = await tokensOf();
    const { refresh_token } = await rotated(old.refresh_token);
    clock.advance({ days: -1 });
    expectProblem(await replica.refresh(old.refresh_token), problems.invalidRefreshToken);
    clock.advance({ days: 1 });
    expectProblem(await app.refresh(refresh_token), problems.invalidRefreshToken);
  });

  it('ends the session when the successor was already used', async () => {
    const old = await tokensOf();
    const { refresh_token: second } = await rotated(old.refresh_token);
    const { refresh_token: third } = await rotated(second);
    expectProblem(await replica.refresh(old.refresh_token), problems.invalidRefreshToken);
    for (const token of [third, second, old.refresh_token]) {
      expectProblem(await app.refresh(token), problems.invalidRefreshToken);
    }
  });

  it('does not change the stored session when it is repeated', async () => {
    const user = await app.user();
    const { refresh_token } = await user.logsIn();
    const row = () => app.database.query('SELECT * FROM sessions WHERE user_id = $1', [user.id]);
    await rotated(refresh_token);
    const stored = await row();
    clock.advance({ seconds: 30 });
    await replica.rotate(refresh_token);
    expect(await row()).toEqual(stored);
  });

  it('is refused when the session has ended', async () => {
    const old = await tokensOf();
    const { refresh_token } = await rotated(old.refresh_token);
    await app.logout(refresh_token).expect(204);
    expectProblem(await app.refresh(old.refresh_token), problems.invalidRefreshToken);
  });

  it('takes its grace from REFRESH_GRACE_SECONDS', async () => {
    const none = await app.startReplica({ variables: { REFRESH_GRACE_SECONDS: '0' } });
    const minutes = await app.startReplica({ variables: { REFRESH_GRACE_SECONDS: '300' } });
    const old = await tokensOf();
    const { refresh_token } = await rotated(old.refresh_token);
    clock.advance({ minutes: 2 });
    expect((await minutes.rotate(old.refresh_token)).refresh_token).toBe(refresh_token);
    expectProblem(await none.refresh(old.refresh_token), problems.invalidRefreshToken);
    expectProblem(await minutes.refresh(refresh_token), problems.invalidRefreshToken);
    for (const each of [none, minutes]) await each.stop();
  });
});

describe('the lifetime of a session', () => {
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

  it('ends after SESSION_MAX_AGE_DAYS for both tokens, also when it is used, and a repeated refresh does not extend it', async () => {
    const kept = await keptAliveFor(84, await tokensOf());
    clock.advance({ days: 5, minutes: 24 * 60 - 1, seconds: 55 });
    const last = await rotated(kept.refresh_token);
    expect((await rotated(kept.refresh_token)).refresh_token).toBe(last.refresh_token);
    // A service that verifies the access token by itself cannot know when the session ends.
    const exp = readClaims(last.access_token).exp as number;
    expect(exp * 1_000).toBeLessThanOrEqual(clock.now().getTime() + 5_000);
    await app.me(last.access_token).expect(200);
    clock.advance({ seconds: 6 });
    for (const { refresh_token } of [kept, last])
      expectProblem(await app.refresh(refresh_token), problems.invalidRefreshToken);
    expectProblem(await app.me(last.access_token), problems.invalidAccessToken);
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
  const replicas = [app, replica, useReplica(app)];

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
    const alice = await app.user();
    for (let round = 0; round < ROUNDS; round++) {
      const old = await alice.logsIn();
      const { refresh_token } = await app.rotate(old.refresh_token);
      clock.advance({ seconds: 61 });
      const [stolen, owned] = await Promise.all([replica.refresh(old.refresh_token), app.refresh(refresh_token)]);
      expectProblem(stolen, problems.invalidRefreshToken);
      const handedOut = [refresh_token, (owned.body as Partial<Tokens>).refresh_token];
      expect([200, 401]).toContain(owned.status);
      for (const token of handedOut) {
        if (token) expectProblem(await replica.refresh(token), problems.invalidRefreshToken);
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
  const app = useApp({ variables: { ...UNLEASED, TRUST_PROXY: 'true' } });
  const replica = useReplica(app);

  const refreshFrom = async (address: string, token: string, through = app): Promise<Tokens> =>
    (await through.refresh(token).set('X-Forwarded-For', address).expect(200)).body as Tokens;
  const EVENT = 'session.refresh.repeated_elsewhere';
  const begin = async () => {
    const alice = await app.user();
    return { id: alice.id, token: (await alice.logsIn()).refresh_token };
  };
  const listRepeats = (subject: string) => recorded(app, { subject, event: EVENT });

  it('from another network returns the same successor, logs a warning and writes one audit row', async () => {
    const { id, token } = await begin();
    const first = await refreshFrom(HOME, token);
    const repeat = await refreshFrom(AWAY, token, replica);
    expect(repeat.refresh_token).toBe(first.refresh_token);
    expect(replica.log.lines).toContainEqual(
      expect.objectContaining({ event: EVENT, level: 'warn', address: AWAY, user_id: id }),
    );
    await refreshFrom('203.0.113.4', token);
    expect(await listRepeats(id)).toMatchObject([
      { actor: { door: 'open', id: null }, address: AWAY, details: { rotated_from: HOME } },
    ]);
  });

  it('from another address of the same IPv6 /64 is neither logged nor audited', async () => {
    const { id, token } = await begin();
    await refreshFrom('2001:db8:1:2::7', token);
    await refreshFrom('2001:db8:1:2:ffff::8', token);
    expect(await listRepeats(id)).toEqual([]);
    expect(app.log.events(EVENT).filter(({ user_id }) => user_id === id)).toEqual([]);
  });

  it('is audited again at the next rotation', async () => {
    const { id, token } = await begin();
    const second = (await refreshFrom(HOME, token)).refresh_token;
    await refreshFrom(AWAY, token);
    await refreshFrom(HOME, second);
    await refreshFrom(AWAY, second);
    expect(await listRepeats(id)).toHaveLength(2);
  });
});
